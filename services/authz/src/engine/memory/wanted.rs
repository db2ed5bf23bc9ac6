//! The facts of a round: what its questions need of other services' rows, joined so that each row is looked up once, and
//! the rows that were found. Anchors are not among them: they are tuples, and tuples are in the graph.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use contract::id::CompanyId;

use super::graph::{Graph, Way};
use super::rules::Bound;
use super::words::Word;
use crate::decision::company_module;
use crate::facts::{Facts, ModuleFacts, Place, PlaceFacts, Question, SubjectFacts};

/// An object has one anchor; more are a mistake that is seen as soon as there are two.
const MAX_ANCHORS: usize = 8;

/// Which rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(super) subjects: BTreeSet<String>,
    pub(super) companies: BTreeSet<CompanyId>,
    pub(super) members: BTreeSet<(CompanyId, String)>,
    pub(super) modules: BTreeSet<String>,
    pub(super) features: BTreeSet<(String, String)>,
}

/// The graph and the model of one moment.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) graph: Graph,
    pub(crate) rules: Arc<Bound>,
}

/// Everything of one moment.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) view: Arc<View>,
    pub(crate) snapshot: String,
    pub(super) look_age_s: Option<f64>,
    pub(super) subjects: HashMap<String, SubjectFacts>,
    pub(super) companies: HashMap<CompanyId, bool>,
    pub(super) members: HashMap<(CompanyId, String), bool>,
    pub(super) modules: HashMap<String, (bool, bool)>,
    pub(super) features: HashMap<(String, String), bool>,
    /// What was looked up: a row that is not among the answers is not there only if it was.
    pub(super) asked: Wanted,
}

/// A place with its company, module and anchors as one graph has them.
pub(super) struct Located {
    company: Option<CompanyId>,
    module: Option<String>,
    pub(super) anchors: Vec<String>,
}

/// Where a place is.
pub(super) fn locate(graph: &Graph, place: &Place) -> Located {
    let anchors = anchors(graph, place);
    if !place.by_anchor {
        return Located { company: place.company, module: place.module.clone(), anchors };
    }
    let first = anchors.iter().min().and_then(|id| company_module(id));
    let (company, module) = first.map(|(company, key)| (company, key.to_owned())).unzip();
    Located { company, module, anchors }
}

/// Ids of the modules in companies that an object is anchored to.
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
    /// What a question needs whose places were located.
    pub(super) fn of(question: &Question, places: &[Located]) -> Self {
        let mut wanted = Self::default();
        let subject = &question.subject.id;
        wanted.subjects.insert(subject.clone());
        for (place, located) in question.places.iter().zip(places) {
            if let Some(company) = located.company {
                wanted.companies.insert(company);
                wanted.members.insert((company, subject.clone()));
            }
            if let Some(module) = &located.module {
                wanted.modules.insert(module.clone());
                if let Some(feature) = &place.feature {
                    wanted.features.insert((module.clone(), feature.clone()));
                }
            }
        }
        wanted
    }

    /// Adds another question's.
    pub(super) fn join(&mut self, mut other: Self) {
        self.subjects.append(&mut other.subjects);
        self.companies.append(&mut other.companies);
        self.members.append(&mut other.members);
        self.modules.append(&mut other.modules);
        self.features.append(&mut other.features);
    }

    fn covers(&self, other: &Self) -> bool {
        other.subjects.is_subset(&self.subjects)
            && other.companies.is_subset(&self.companies)
            && other.members.is_subset(&self.members)
            && other.modules.is_subset(&self.modules)
            && other.features.is_subset(&self.features)
    }
}

impl Moment {
    /// The facts of a question without its relations; what else must be looked up when an anchor led elsewhere than
    /// was thought.
    pub(super) fn facts(&self, question: &Question) -> Result<Facts, Wanted> {
        let located: Vec<Located> =
            question.places.iter().map(|place| locate(&self.view.graph, place)).collect();
        let wanted = Wanted::of(question, &located);
        if !self.asked.covers(&wanted) {
            return Err(wanted);
        }
        let subject = &question.subject.id;
        let places = question.places.iter().zip(located);
        Ok(Facts {
            model: Arc::clone(&self.view.rules.model),
            snapshot: self.snapshot.clone(),
            look_age_s: self.look_age_s,
            subject: self.subjects.get(subject).cloned(),
            places: places.map(|(place, located)| self.place(subject, place, located)).collect(),
            held: HashMap::new(),
            paths: HashMap::new(),
        })
    }

    fn place(&self, subject: &str, place: &Place, located: Located) -> PlaceFacts {
        let Located { company, module, anchors } = located;
        let member = company.map(|company| (company, subject.to_owned()));
        let module = module.and_then(|key| {
            let (installed, enabled) = *self.modules.get(&key)?;
            let feature = place.feature.as_ref().map(|feature| (key, feature.clone()));
            let knows = feature.is_none_or(|pair| self.features.get(&pair).copied().unwrap_or(false));
            Some(ModuleFacts { installed, enabled, knows_feature: knows })
        });
        PlaceFacts {
            company_active: company.and_then(|company| self.companies.get(&company).copied()),
            member_active: member.and_then(|member| self.members.get(&member).copied()),
            module,
            anchors,
        }
    }
}
