//! A subject's own tuples: those that name the subject directly.

use contract::decision::ObjectRef;
use contract::fragment::is_base_type;
use contract::grants::company_module_id;
use contract::id::CompanyId;
use hashbrown::HashMap;

use crate::engine::answers::{OwnTuple, Portion};
use crate::engine::facts::{SubjectRef, company_module};
use crate::engine::graph::names::Node;
use crate::engine::graph::words::Word;
use crate::engine::graph::{Edge, Graph, MOST_COUNTED, View, Way};

/// Type of the objects that stand for one module in one company.
const MODULE: &str = "company_module";

/// Which own tuples to read.
pub(crate) struct Wanted {
    companies: Vec<CompanyId>,
    objects_of: Vec<CompanyId>,
    most_objects: usize,
}

/// The tuples; the fields are those of [`Summarized`](crate::engine::Summarized).
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) tiers: Vec<OwnTuple>,
    pub(crate) objects: Vec<OwnTuple>,
    pub(crate) looked_at: usize,
}

impl Wanted {
    /// What a portion of a summary wants.
    pub(crate) fn of(portion: &Portion<'_>) -> Self {
        Self {
            companies: portion.companies.to_vec(),
            objects_of: portion.objects_of.to_vec(),
            most_objects: portion.most_objects,
        }
    }
}

/// The subject's node; `None` when no tuple names the subject.
pub(crate) fn node(graph: &Graph, subject: &SubjectRef) -> Option<Node> {
    graph.node(&subject.kind, &subject.id)
}

/// Number of edges that [`read`] looks at for objects.
pub(crate) fn count(graph: &Graph, subject: Node) -> usize {
    graph.degree(Way::Reverse, subject, Word::NONE, Word::FIRST..=Word::LAST)
}

/// Reads the own tuples of a subject.
pub(crate) fn read(view: &View, subject: Node, wanted: &Wanted) -> Own {
    let tiers = tiers(view, subject, &wanted.companies);
    if wanted.objects_of.is_empty() {
        return Own { tiers, ..Own::default() };
    }
    let edges = of_objects(&view.graph, subject, wanted.most_objects);
    Own { tiers, objects: objects(view, &edges, &wanted.objects_of), looked_at: edges.len() }
}

/// The tuples on enabled modules in these companies: from the subject's edges, or each looked up where those are more.
fn tiers(view: &View, subject: Node, companies: &[CompanyId]) -> Vec<OwnTuple> {
    let View { graph, rules } = view;
    let relations = rules.model.relations(MODULE);
    let words: Vec<_> =
        relations.iter().filter_map(|relation| Some((graph.words.find(relation)?, *relation))).collect();
    let Some(kind) = graph.words.find(MODULE) else { return Vec::new() };
    let lookups = [companies.len(), rules.model.enabled().len(), words.len()];
    let lookups = lookups.into_iter().fold(1, usize::saturating_mul);
    if count(graph, subject) < lookups.min(MOST_COUNTED) {
        tiers_among_edges(view, subject, companies, kind, &words)
    } else {
        tiers_looked_up(view, subject, companies, kind, &words)
    }
}

fn tiers_among_edges(
    View { graph, rules }: &View,
    subject: Node,
    companies: &[CompanyId],
    kind: Word,
    relations: &[(Word, &str)],
) -> Vec<OwnTuple> {
    let mut tiers = Vec::new();
    graph.each(Way::Reverse, subject, Word::NONE, Word::FIRST..=Word::LAST, |edge| {
        let relation = relations.iter().find(|(word, _)| *word == edge.far);
        let Some((_, relation)) = relation.filter(|_| graph.names.kind(edge.node) == kind) else { return };
        let id = graph.names.id(edge.node);
        let Some((company, module)) = company_module(&id) else { return };
        if companies.contains(&company) && rules.model.is_enabled(module) {
            let object = ObjectRef::company_module(company, module);
            tiers.push(OwnTuple { company, object, relation: (*relation).to_owned() });
        }
    });
    tiers
}

fn tiers_looked_up(
    View { graph, rules }: &View,
    subject: Node,
    companies: &[CompanyId],
    kind: Word,
    relations: &[(Word, &str)],
) -> Vec<OwnTuple> {
    let mut tiers = Vec::new();
    for company in companies {
        let mut id = company_module_id(*company, "");
        let of_company = id.len();
        for module in rules.model.enabled() {
            id.truncate(of_company);
            id.push_str(&module.key);
            let Some(node) = graph.names.find(kind, &id) else { continue };
            for (word, relation) in relations {
                if graph.contains(node, Edge { near: *word, far: Word::NONE, node: subject }) {
                    let object = ObjectRef::company_module(*company, &module.key);
                    tiers.push(OwnTuple { company: *company, object, relation: (*relation).to_owned() });
                }
            }
        }
    }
    tiers
}

/// The edges to objects of modules, at most `most`.
fn of_objects(graph: &Graph, subject: Node, most: usize) -> Vec<Edge> {
    let mut edges = Vec::new();
    graph.each(Way::Reverse, subject, Word::NONE, Word::FIRST..=Word::LAST, |edge| {
        if edges.len() < most && !is_base_type(graph.words.text(graph.names.kind(edge.node))) {
            edges.push(edge);
        }
    });
    edges
}

/// The tuples whose object has its only anchor at an enabled module in one of these companies.
fn objects(view: &View, edges: &[Edge], companies: &[CompanyId]) -> Vec<OwnTuple> {
    let View { graph, rules } = view;
    let Some(word) = graph.words.find(MODULE) else { return Vec::new() };
    let mut known: HashMap<Node, Option<CompanyId>> = HashMap::new();
    let company_of = |anchor: Node| {
        let id = graph.names.id(anchor);
        let (company, module) = company_module(&id)?;
        (companies.binary_search(&company).is_ok() && rules.model.is_enabled(module)).then_some(company)
    };
    let mut tuples = Vec::new();
    for edge in edges {
        let Some(anchor) = only_anchor(graph, word, edge.node) else { continue };
        let Some(company) = *known.entry(anchor).or_insert_with(|| company_of(anchor)) else { continue };
        let kind = graph.words.text(graph.names.kind(edge.node)).to_owned();
        let object = ObjectRef { kind, id: graph.names.id(edge.node) };
        tuples.push(OwnTuple { company, object, relation: graph.words.text(edge.far).to_owned() });
    }
    tuples
}

/// The anchor of an object that has exactly one.
fn only_anchor(graph: &Graph, word: Word, object: Node) -> Option<Node> {
    let (mut first, mut count) = (None, 0_u32);
    graph.each(Way::Forward, object, word, Word::NONE..=Word::NONE, |edge| {
        if graph.names.kind(edge.node) == word {
            first = first.or(Some(edge.node));
            count = count.saturating_add(1);
        }
    });
    first.filter(|_| count == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use contract::fragment::base_model;
    use serde_json::Value;

    use super::*;
    use crate::engine::graph::rules::Bound;
    use crate::engine::graph::{GraphBuilder, TupleRow};
    use crate::engine::model::{Enabled, Model};

    const COMPANIES: [&str; 3] = [
        "0192f0c1-5d3e-7a10-8c11-2f6a4d9b0001",
        "0192f0c1-5d3e-7a10-8c11-2f6a4d9b0002",
        "0192f0c1-5d3e-7a10-8c11-2f6a4d9b0003",
    ];

    fn row<'a>(object: (&'a str, &'a str), relation: &'a str, subject: (&'a str, &'a str)) -> TupleRow<'a> {
        TupleRow {
            object_type: object.0,
            object_id: object.1,
            relation,
            subject_type: "user",
            subject_id: subject.0,
            subject_relation: subject.1,
        }
    }

    /// Modules `docs` and `desk` are enabled, `old` is not.
    fn view() -> View {
        let enabled =
            |key: &str| Enabled { key: key.to_owned(), features: BTreeSet::new(), fragment: Value::Null };
        let model = Model::compile(0, &base_model(), &BTreeMap::new()).expect("each type once");
        let model = Arc::new(model.with_enabled(vec![enabled("docs"), enabled("desk")]));
        let [first, second, third] = COMPANIES;
        let modules = [(first, "docs"), (first, "desk"), (first, "old"), (second, "docs"), (third, "desk")]
            .map(|(company, key)| format!("{company}/{key}"));
        let mut builder = GraphBuilder::default();
        for module in &modules {
            builder.push(&row(("company_module", module), "admin", ("ann", ""))).expect("room");
            builder.push(&row(("company_module", module), "admin", ("bob", ""))).expect("room");
        }
        builder.push(&row(("company", first), "member", ("ann", ""))).expect("room");
        builder.push(&row(("company_module", "no-company"), "admin", ("ann", ""))).expect("room");
        let mut graph = builder.finish().expect("room");
        let [docs, desk, ..] = &modules;
        graph.apply(true, &row(("company_module", docs), "member", ("ann", ""))).expect("room");
        graph.apply(false, &row(("company_module", desk), "admin", ("ann", ""))).expect("room");
        let rules = Arc::new(Bound::new(model, &mut graph).expect("room"));
        View { graph, rules }
    }

    #[test]
    fn tiers_among_edges_are_those_that_are_looked_up() {
        let view = view();
        let companies =
            [0, 1].map(|index| CompanyId::from(COMPANIES[index].parse::<uuid::Uuid>().expect("an id")));
        let ann = node(&view.graph, &SubjectRef::user("ann")).expect("named");
        let kind = view.graph.words.find(MODULE).expect("a type");
        let relations =
            ["admin", "member"].map(|name| (view.graph.words.find(name).expect("a relation"), name));
        let told = |tiers: Vec<OwnTuple>| -> BTreeSet<String> {
            tiers.iter().map(|own| format!("{}#{}", own.object, own.relation)).collect()
        };
        let expected = [(0, "docs#admin"), (0, "docs#member"), (1, "docs#admin")]
            .map(|(company, of)| format!("company_module:{}/{of}", COMPANIES[company]));
        let among = told(tiers_among_edges(&view, ann, &companies, kind, &relations));
        assert_eq!(among, BTreeSet::from(expected));
        assert_eq!(told(tiers_looked_up(&view, ann, &companies, kind, &relations)), among);
    }
}
