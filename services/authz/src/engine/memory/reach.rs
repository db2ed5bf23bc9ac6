//! Lists: every object of one type on which a subject holds one relation, found from the subject's side over the reverse
//! edges; and every subject that holds a relation of an object. Both visit each state once and have a budget.

use hashbrown::HashSet;

use super::graph::{Graph, Way};
use super::names::Node;
use super::rules::{Bound, Consequences};
use super::search::State;
use super::words::Word;
use crate::facts::{Ask, SubjectRef};
use contract::decision::ObjectRef;

/// The budget was not enough; the list would not be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

struct Reach<'a> {
    graph: &'a Graph,
    rules: &'a Bound,
    seen: HashSet<State>,
    queue: Vec<State>,
}

impl<'a> Reach<'a> {
    fn new(graph: &'a Graph, rules: &'a Bound) -> Self {
        Self { graph, rules, seen: HashSet::new(), queue: Vec::new() }
    }

    fn visit(&mut self, node: Node, relations: Option<&Vec<Word>>) {
        for relation in relations.into_iter().flatten() {
            if self.seen.insert((node, *relation)) {
                self.queue.push((node, *relation));
            }
        }
    }

    /// The subject holds whatever a tuple of it gives.
    fn by_tuples_of(&mut self, subject: Node, of: Word) {
        let (graph, rules) = (self.graph, self.rules);
        graph.each(Way::Reverse, subject, of, Word::NONE..=Word::LAST, |edge| {
            let direct = consequences(graph, rules, edge.node).and_then(|rules| rules.direct.get(&edge.far));
            self.visit(edge.node, direct);
        });
    }

    /// Whoever holds a relation of a node holds what is computed from it over the tuples that name the node.
    fn by_tuples_to(&mut self, (node, relation): State) {
        let (graph, rules) = (self.graph, self.rules);
        graph.each(Way::Reverse, node, Word::NONE, Word::NONE..=Word::LAST, |edge| {
            let follow = consequences(graph, rules, edge.node).and_then(|rules| rules.follow.get(&edge.far));
            for (computed, gives) in follow.into_iter().flatten() {
                if *computed == relation && self.seen.insert((edge.node, *gives)) {
                    self.queue.push((edge.node, *gives));
                }
            }
        });
    }
}

fn consequences<'a>(graph: &Graph, rules: &'a Bound, node: Node) -> Option<&'a Consequences> {
    rules.consequences(graph.names.kind(node))
}

/// Nodes of the type, in no order. A userset that is nowhere in a tuple is left to the caller.
pub(crate) fn objects(
    graph: &Graph,
    rules: &Bound,
    subject: &SubjectRef,
    (kind, relation): (&str, &str),
    budget: usize,
) -> Result<Vec<Node>, Exhausted> {
    let wanted = graph.words.find(kind).zip(graph.words.find(relation));
    let of = graph.words.find(&subject.relation);
    let Some(((kind, relation), (node, of))) = wanted.zip(graph.node(&subject.kind, &subject.id).zip(of))
    else {
        return Ok(Vec::new());
    };
    let mut reach = Reach::new(graph, rules);
    reach.by_tuples_of(node, of);
    let own = consequences(graph, rules, node).and_then(|rules| rules.implied.get(&of));
    reach.visit(node, own);
    let mut found = Vec::new();
    while let Some(state) = reach.queue.pop() {
        if reach.seen.len() > budget {
            return Err(Exhausted);
        }
        if state.1 == relation && graph.names.kind(state.0) == kind {
            found.push(state.0);
        }
        reach.by_tuples_of(state.0, state.1);
        reach.by_tuples_to(state);
    }
    Ok(found)
}

/// Plain subjects of a type, in no order.
pub(crate) fn subjects(
    graph: &Graph,
    rules: &Bound,
    ask: &Ask,
    kind: &str,
    budget: usize,
) -> Result<Vec<Node>, Exhausted> {
    let start = graph.node(&ask.object.kind, &ask.object.id).zip(graph.words.find(&ask.relation));
    let (Some(start), Some(wanted)) = (start, graph.words.find(kind)) else { return Ok(Vec::new()) };
    let (mut seen, mut queue): (HashSet<State>, _) = (HashSet::from([start]), vec![start]);
    let mut found: HashSet<Node> = HashSet::new();
    while let Some((node, relation)) = queue.pop() {
        if seen.len() > budget {
            return Err(Exhausted);
        }
        let Some(rule) = rules.rule(graph.names.kind(node), relation) else { continue };
        let mut visit = |state: State| {
            if rules.rule(graph.names.kind(state.0), state.1).is_some() && seen.insert(state) {
                queue.push(state);
            }
        };
        for direct in &rule.direct {
            graph.each(Way::Forward, node, *direct, Word::NONE..=Word::LAST, |edge| {
                if edge.far != Word::NONE {
                    visit((edge.node, edge.far));
                } else if graph.names.kind(edge.node) == wanted {
                    found.insert(edge.node);
                }
            });
        }
        for (tupleset, computed) in &rule.follow {
            graph.each(Way::Forward, node, *tupleset, Word::NONE..=Word::NONE, |edge| {
                visit((edge.node, *computed));
            });
        }
    }
    Ok(found.into_iter().collect())
}

/// Objects of a type that are anchored to a module in a company.
pub(crate) fn anchored(graph: &Graph, anchor: &ObjectRef, kind: &str) -> Vec<Node> {
    let relation = graph.words.find("company_module");
    let found = graph.node(&anchor.kind, &anchor.id).zip(relation).zip(graph.words.find(kind));
    let Some(((node, relation), kind)) = found else { return Vec::new() };
    let mut objects = Vec::new();
    graph.each(Way::Reverse, node, Word::NONE, relation..=relation, |edge| {
        if graph.names.kind(edge.node) == kind {
            objects.push(edge.node);
        }
    });
    objects
}
