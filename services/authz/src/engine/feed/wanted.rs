//! The facts of a round: the rows of other services that its questions need, joined so that each row is looked up once,
//! and the rows found. Anchors are not among them: they are tuples, which the graph holds.

use std::cmp::Ordering;
use std::sync::Arc;

use contract::id::CompanyId;
use hashbrown::HashMap;

use crate::engine::facts::{Facts, ModuleFacts, Place, PlaceFacts, Question, SubjectFacts, company_module};
use crate::engine::graph::words::Word;
use crate::engine::graph::{Graph, View, Way};

/// Maximum number of anchors read per object. A correct object has one; two already reveal the mistake.
const MAX_ANCHORS: usize = 8;

/// Keys of the rows to read. The keys of a round are sorted and unique ([`Wanted::in_order`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) subjects: Vec<String>,
    pub(crate) companies: Vec<CompanyId>,
    pub(crate) members: Vec<(CompanyId, String)>,
    pub(crate) modules: Vec<String>,
}

/// The rows found, in the order of their keys.
#[derive(Debug)]
pub(crate) struct Rows<K, V> {
    pub(crate) keys: Vec<K>,
    pub(crate) found: Vec<Option<V>>,
}

impl<K, V> Rows<K, V> {
    /// The row of a key, if it exists; outer `None` when it was not looked up.
    #[expect(clippy::option_option, reason = "outer: looked up; inner: exists")]
    fn get(&self, order: impl Fn(&K) -> Ordering) -> Option<Option<&V>> {
        let index = self.keys.binary_search_by(order).ok()?;
        self.found.get(index).map(Option::as_ref)
    }
}

/// The graph and the facts of one moment.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) view: Arc<View>,
    pub(crate) snapshot: String,
    pub(crate) look_age_s: Option<f64>,
    pub(crate) subjects: Rows<String, SubjectFacts>,
    pub(crate) companies: Rows<CompanyId, bool>,
    pub(crate) members: Rows<(CompanyId, String), bool>,
    pub(crate) modules: Rows<String, ModuleFacts>,
}

/// The company, module and anchors of a place, according to one graph and its model.
pub(crate) struct Located {
    company: Option<CompanyId>,
    module: Option<String>,
    pub(crate) anchors: Vec<String>,
}

/// Locates every place of a question.
pub(crate) fn locate_all(view: &View, question: &Question) -> Vec<Located> {
    question.places.iter().map(|place| locate(view, place)).collect()
}

/// Locates one place.
pub(crate) fn locate(view: &View, place: &Place) -> Located {
    let anchors = anchors(&view.graph, place);
    let module = place.module_by(&view.rules.model).map(ToOwned::to_owned);
    if !place.by_anchor {
        return Located { company: place.company, module, anchors };
    }
    let first = anchors.iter().min().and_then(|id| company_module(id));
    Located { company: first.map(|(company, _)| company), module, anchors }
}

/// Ids of the `company_module` objects that an object is anchored to.
fn anchors(graph: &Graph, place: &Place) -> Vec<String> {
    let (Some(kind), Some(id)) = (&place.object_type, &place.object_id) else { return Vec::new() };
    let relation = graph.words.find("company_module");
    let mut anchors = Vec::new();
    if let Some((object, relation)) = graph.node(kind, id).zip(relation) {
        graph.each(Way::Forward, object, relation, Word::NONE..=Word::NONE, |edge| {
            if graph.names.kind(edge.node) == relation && anchors.len() < MAX_ANCHORS {
                anchors.push(graph.names.id(edge.node));
            }
        });
    }
    anchors
}

impl Wanted {
    /// The rows that a question with located places needs.
    pub(crate) fn of(question: &Question, places: &[Located]) -> Self {
        let subject = &question.subject.id;
        let mut wanted = Self { subjects: vec![subject.clone()], ..Self::default() };
        for located in places {
            if let Some(company) = located.company {
                wanted.companies.push(company);
                wanted.members.push((company, subject.clone()));
            }
            if let Some(module) = &located.module {
                wanted.modules.push(module.clone());
            }
        }
        wanted
    }

    /// Adds the rows of another question.
    pub(crate) fn join(&mut self, other: Self) {
        add(&mut self.subjects, other.subjects);
        add(&mut self.companies, other.companies);
        add(&mut self.members, other.members);
        add(&mut self.modules, other.modules);
    }

    /// Sorts and deduplicates the keys, as the search in [`Rows`] requires.
    pub(crate) fn in_order(mut self) -> Self {
        order(&mut self.subjects);
        order(&mut self.companies);
        order(&mut self.members);
        order(&mut self.modules);
        self
    }

    /// Whether at most one row of each kind is needed. The member row is then that subject in that company.
    pub(crate) const fn is_of_one(&self) -> bool {
        self.subjects.len() <= 1
            && self.companies.len() <= 1
            && self.members.len() <= 1
            && self.modules.len() <= 1
    }
}

fn add<K>(all: &mut Vec<K>, more: Vec<K>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.extend(more);
    }
}

fn order<K: Ord>(keys: &mut Vec<K>) {
    keys.sort_unstable();
    keys.dedup();
}

impl Moment {
    /// The facts of a question, still without its relations, for places located in this moment's graph. `None` when
    /// another lookup is needed because an anchor has changed.
    pub(crate) fn facts(&self, question: &Question, located: Vec<Located>) -> Option<Facts> {
        let subject = question.subject.id.as_str();
        let known = self.subjects.get(|key| key.as_str().cmp(subject))?;
        let places = located.into_iter().map(|located| self.place(subject, located));
        Some(Facts {
            model: Arc::clone(&self.view.rules.model),
            snapshot: self.snapshot.clone(),
            look_age_s: self.look_age_s,
            subject: known.cloned(),
            places: places.collect::<Option<_>>()?,
            held: HashMap::new(),
            paths: HashMap::new(),
        })
    }

    fn place(&self, subject: &str, located: Located) -> Option<PlaceFacts> {
        let Located { company, module, anchors } = located;
        let mut facts = PlaceFacts { anchors, ..PlaceFacts::default() };
        if let Some(company) = company {
            let member = |(of, who): &(CompanyId, String)| (of, who.as_str()).cmp(&(&company, subject));
            facts.company_active = self.companies.get(|key| key.cmp(&company))?.copied();
            facts.member_active = self.members.get(member)?.copied();
        }
        if let Some(module) = module {
            facts.module = self.modules.get(|key| key.cmp(&module))?.cloned();
        }
        Some(facts)
    }
}
