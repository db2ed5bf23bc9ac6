//! Searches over the reverse edges: [`Reach`] finds what a subject holds, which is one side of a search (`search.rs`);
//! [`objects`] lists the objects on which it holds one relation. [`subjects`] finds every subject that holds a relation
//! on an object, over the forward edges. Each visits a state once and has a budget.

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
    by: Giver,
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
        let (graph, rules) = (self.graph, self.rules);
        each_given(graph, rules, state, from.is_none(), |given, by| self.find(given, by, from));
        true
    }

    fn find(&mut self, state: State, by: Giver, from: Option<usize>) {
        grow(&mut self.seen);
        if self.seen.try_insert(state, self.held.len()).is_ok() {
            self.held.push(Holding { state, by, from });
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

/// The relation and the subject relation of the tuple that gives a state; absent when the subject is a userset that
/// implies it.
type Giver = Option<(Word, Word)>;

/// Visits the states that the holders of a state hold because of it.
fn each_given(
    graph: &Graph,
    rules: &Bound,
    state: State,
    is_subject: bool,
    mut give: impl FnMut(State, Giver),
) {
    given_by_tuples_of(graph, rules, state, &mut give);
    if is_subject {
        given_by_itself(graph, rules, state, &mut give);
    } else if rules.is_computed(state.1) {
        given_by_tuples_to(graph, rules, state, &mut give);
    }
}

/// Visits what the tuples with this state as their subject give to its holders.
fn given_by_tuples_of(graph: &Graph, rules: &Bound, (node, of): State, give: &mut impl FnMut(State, Giver)) {
    // Edges of one relation, and mostly of one type, are contiguous.
    let (mut of_edge, mut direct) = (None, None);
    graph.each(Way::Reverse, node, of, Word::NONE..=Word::LAST, |edge| {
        let kind = graph.names.kind(edge.node);
        if of_edge != Some((kind, edge.far)) {
            of_edge = Some((kind, edge.far));
            direct = rules.consequences(kind).and_then(|rules| rules.direct.get(&edge.far));
        }
        for relation in direct.into_iter().flatten() {
            give((edge.node, *relation), Some((edge.far, of)));
        }
    });
}

/// Visits what is computed from this relation over the tuples that name its node.
fn given_by_tuples_to(
    graph: &Graph,
    rules: &Bound,
    (node, relation): State,
    give: &mut impl FnMut(State, Giver),
) {
    graph.each(Way::Reverse, node, Word::NONE, Word::NONE..=Word::LAST, |edge| {
        let follow = consequences(graph, rules, edge.node).and_then(|rules| rules.follow.get(&edge.far));
        for (computed, gives) in follow.into_iter().flatten() {
            if *computed == relation {
                give((edge.node, *gives), Some((edge.far, Word::NONE)));
            }
        }
    });
}

/// Visits what a userset holds on its own object: itself and what it implies.
fn given_by_itself(graph: &Graph, rules: &Bound, (node, of): State, give: &mut impl FnMut(State, Giver)) {
    let own = consequences(graph, rules, node).and_then(|rules| rules.implied.get(&of));
    for relation in own.into_iter().flatten() {
        give((node, *relation), None);
    }
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
    let Some((wanted, named)) = wanted.zip(graph.node(&subject.kind, &subject.id).zip(of)) else {
        return Ok(Vec::new());
    };
    let is_wanted = |(node, relation): State| wanted == (graph.names.kind(node), relation);
    let mut inner: HashSet<State> = HashSet::new();
    let mut leaves = Leaves::default();
    let mut queue = vec![(named, true)];
    while let Some((state, is_subject)) = queue.pop() {
        each_given(graph, rules, state, is_subject, |given, _| {
            if graph.is_without_edges(Way::Reverse, given.0) {
                leaves.add(given.0, is_wanted(given));
            } else if inner.insert(given) {
                queue.push((given, false));
            }
        });
        leaves.limit(budget.checked_sub(inner.len()).ok_or(Exhausted)?)?;
    }
    let mut found = leaves.found(budget.checked_sub(inner.len()).ok_or(Exhausted)?)?;
    found.extend(inner.into_iter().filter(|state| is_wanted(*state)).map(|(node, _)| node));
    Ok(found)
}

/// The nodes of a list from which nothing follows: almost all objects of most modules. None is looked up again, so they
/// are kept as a plain list, and those of other types and relations are only counted.
#[derive(Default)]
struct Leaves {
    wanted: Vec<Node>,
    others: usize,
}

impl Leaves {
    /// Passing over this many leaves costs as much as keeping one state.
    const OTHERS_PER_STATE: usize = 8;

    fn add(&mut self, node: Node, is_wanted: bool) {
        if is_wanted { self.wanted.push(node) } else { self.others = self.others.saturating_add(1) }
    }

    /// Fails when there are more than `budget`. Nodes that were found several times count as one, so they are removed
    /// before; each time at least half of the list goes, or the search ends.
    fn limit(&mut self, budget: usize) -> Result<(), Exhausted> {
        let room = budget.checked_sub(self.others / Self::OTHERS_PER_STATE).ok_or(Exhausted)?;
        if self.wanted.len() > room.saturating_mul(2) { self.distinct(room) } else { Ok(()) }
    }

    fn distinct(&mut self, room: usize) -> Result<(), Exhausted> {
        self.wanted.sort_unstable();
        self.wanted.dedup();
        if self.wanted.len() > room { Err(Exhausted) } else { Ok(()) }
    }

    /// Each node once.
    fn found(mut self, budget: usize) -> Result<Vec<Node>, Exhausted> {
        let room = budget.checked_sub(self.others / Self::OTHERS_PER_STATE).ok_or(Exhausted)?;
        self.distinct(room)?;
        Ok(self.wanted)
    }
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
