//! Searches over the reverse edges: [`Reach`] finds what a subject holds, which is one side of a search (`search.rs`)
//! and, filtered by type and relation, a list. [`subjects`] finds every subject that holds a relation on an object,
//! over the forward edges. Each visits a state once and has a budget.

use hashbrown::{HashMap, HashSet};

use crate::engine::facts::{Ask, SubjectRef};
use crate::engine::graph::names::Node;
use crate::engine::graph::rules::{Bound, Consequences};
use crate::engine::graph::search::{Path, State, grow, tuple_text};
use crate::engine::graph::words::Word;
use crate::engine::graph::{Graph, Way};
use contract::decision::ObjectRef;

/// The budget was exceeded, so the list would be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// What one subject holds, found step by step: from the subject itself, then from each state found.
pub(crate) struct Reach<'a> {
    graph: &'a Graph,
    rules: &'a Bound,
    subject: (Node, Word),
    /// Index of each state in `held`.
    seen: HashMap<State, usize>,
    held: Vec<Holding>,
    /// Number of steps taken; the first starts from the subject itself.
    steps: usize,
}

/// A state that the subject holds.
struct Holding {
    state: State,
    /// The relation and the subject relation of the tuple that gives it; absent when the subject is a userset that
    /// implies it.
    by: Option<(Word, Word)>,
    /// The holding that is that tuple's subject; absent for the subject itself.
    from: Option<usize>,
}

impl<'a> Reach<'a> {
    /// Starts before the first step.
    pub(crate) fn new(graph: &'a Graph, rules: &'a Bound, subject: (Node, Word)) -> Self {
        Self { graph, rules, subject, seen: HashMap::new(), held: Vec::new(), steps: 0 }
    }

    /// The subject.
    pub(crate) const fn subject(&self) -> State {
        self.subject
    }

    /// Number of states found so far.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether a step was taken; before the first, not even the subject's own tuples are known.
    pub(crate) const fn has_begun(&self) -> bool {
        self.steps > 0
    }

    /// The states found after the first `known`.
    pub(crate) fn since(&self, known: usize) -> impl Iterator<Item = State> {
        self.held.iter().skip(known).map(|holding| holding.state)
    }

    /// Where the next step starts; `None` when everything that the subject holds is known.
    fn next(&self) -> Option<(State, Option<usize>)> {
        match self.steps.checked_sub(1) {
            None => Some((self.subject, None)),
            Some(index) => self.held.get(index).map(|holding| (holding.state, Some(index))),
        }
    }

    /// Whether everything that the subject holds is known.
    pub(crate) fn is_done(&self) -> bool {
        self.next().is_none()
    }

    /// Number of edges that the next step looks at.
    pub(crate) fn cost(&self) -> usize {
        let Some(((node, relation), from)) = self.next() else { return 0 };
        let degree = |near| self.graph.degree(Way::Reverse, node, near, Word::NONE..=Word::LAST);
        let tupleset =
            if from.is_some() && self.rules.is_computed(relation) { degree(Word::NONE) } else { 0 };
        degree(relation).saturating_add(tupleset)
    }

    /// Takes the next step; returns false when there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some((state, from)) = self.next() else { return false };
        self.steps += 1;
        self.by_tuples_of(state, from);
        if from.is_some() && self.rules.is_computed(state.1) {
            self.by_tuples_to(state, from);
        } else if from.is_none() {
            self.by_itself();
        }
        true
    }

    fn find(&mut self, state: State, by: Option<(Word, Word)>, from: Option<usize>) {
        grow(&mut self.seen);
        if self.seen.try_insert(state, self.held.len()).is_ok() {
            self.held.push(Holding { state, by, from });
        }
    }

    /// Adds what the tuples with this state as their subject give to its holders.
    fn by_tuples_of(&mut self, (node, of): State, from: Option<usize>) {
        let (graph, rules) = (self.graph, self.rules);
        // Edges of one relation, and mostly of one type, are contiguous.
        let (mut of_edge, mut direct) = (None, None);
        graph.each(Way::Reverse, node, of, Word::NONE..=Word::LAST, |edge| {
            let kind = graph.names.kind(edge.node);
            if of_edge != Some((kind, edge.far)) {
                of_edge = Some((kind, edge.far));
                direct = rules.consequences(kind).and_then(|rules| rules.direct.get(&edge.far));
            }
            for relation in direct.into_iter().flatten() {
                self.find((edge.node, *relation), Some((edge.far, of)), from);
            }
        });
    }

    /// Adds what is computed from this relation over the tuples that name its node.
    fn by_tuples_to(&mut self, (node, relation): State, from: Option<usize>) {
        let (graph, rules) = (self.graph, self.rules);
        graph.each(Way::Reverse, node, Word::NONE, Word::NONE..=Word::LAST, |edge| {
            let follow = consequences(graph, rules, edge.node).and_then(|rules| rules.follow.get(&edge.far));
            for (computed, gives) in follow.into_iter().flatten() {
                if *computed == relation {
                    self.find((edge.node, *gives), Some((edge.far, Word::NONE)), from);
                }
            }
        });
    }

    /// Adds what a userset holds on its own object: itself and what it implies.
    fn by_itself(&mut self) {
        let (node, of) = self.subject;
        let own = consequences(self.graph, self.rules, node).and_then(|rules| rules.implied.get(&of));
        for relation in own.into_iter().flatten() {
            self.find((node, *relation), None, None);
        }
    }

    /// The first `most` tuples through which a state is held, from the state to the subject; `None` when it is not
    /// known to be.
    pub(crate) fn path(&self, state: State, most: usize) -> Option<Path> {
        let mut at = Some(*self.seen.get(&state)?);
        let mut path = Path::default();
        while let Some(Holding { state, by, from }) = at.and_then(|index| self.held.get(index)) {
            let (subject, _) =
                from.and_then(|index| self.held.get(index)).map_or(self.subject, |one| one.state);
            if let Some((relation, of)) = by {
                path.is_cut = path.tuples.len() == most;
                if path.is_cut {
                    break;
                }
                path.tuples.push(tuple_text(self.graph, state.0, *relation, subject, *of));
            }
            at = *from;
        }
        Some(path)
    }
}

fn consequences<'a>(graph: &Graph, rules: &'a Bound, node: Node) -> Option<&'a Consequences> {
    rules.consequences(graph.names.kind(node))
}

/// Nodes of a type, in no order. Excludes a userset that no tuple names; the caller must handle it.
pub(crate) fn objects(
    graph: &Graph,
    rules: &Bound,
    subject: &SubjectRef,
    (kind, relation): (&str, &str),
    budget: usize,
) -> Result<Vec<Node>, Exhausted> {
    let wanted = graph.words.find(kind).zip(graph.words.find(relation));
    let of = graph.words.find(&subject.relation);
    let Some(((kind, relation), named)) = wanted.zip(graph.node(&subject.kind, &subject.id).zip(of)) else {
        return Ok(Vec::new());
    };
    let mut reach = Reach::new(graph, rules, named);
    while reach.step() {
        if reach.len() > budget {
            return Err(Exhausted);
        }
    }
    let is_wanted = |state: &State| state.1 == relation && graph.names.kind(state.0) == kind;
    Ok(reach.since(0).filter(is_wanted).map(|(node, _)| node).collect())
}

/// Subjects of a type, in no order: plain ones when `of` is empty, otherwise usersets of that relation.
pub(crate) fn subjects(
    graph: &Graph,
    rules: &Bound,
    ask: &Ask,
    (kind, of): (&str, &str),
    budget: usize,
) -> Result<Vec<Node>, Exhausted> {
    let start = graph.node(&ask.object.kind, &ask.object.id).zip(graph.words.find(&ask.relation));
    let wanted = graph.words.find(kind).zip(graph.words.find(of));
    let Some((start, (kind, of))) = start.zip(wanted) else { return Ok(Vec::new()) };
    let (mut seen, mut queue): (HashSet<State>, _) = (HashSet::from([start]), vec![start]);
    let mut found: HashSet<Node> = HashSet::new();
    while let Some((node, relation)) = queue.pop() {
        if seen.len() > budget {
            return Err(Exhausted);
        }
        let Some(rule) = rules.rule(graph.names.kind(node), relation) else { continue };
        // A userset holds itself and what it implies.
        if of != Word::NONE && graph.names.kind(node) == kind && rule.implied.contains(&of) {
            found.insert(node);
        }
        let mut visit = |state: State| {
            if rules.rule(graph.names.kind(state.0), state.1).is_some() && seen.insert(state) {
                queue.push(state);
            }
        };
        for direct in &rule.direct {
            graph.each(Way::Forward, node, *direct, Word::NONE..=Word::LAST, |edge| {
                if edge.far == of && graph.names.kind(edge.node) == kind {
                    found.insert(edge.node);
                }
                if edge.far != Word::NONE {
                    visit((edge.node, edge.far));
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
