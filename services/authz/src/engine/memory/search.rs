//! Who holds what: a search over (object, relation), each visited once, so it is an exact least fixpoint that ends on
//! every cycle. It goes from both ends, from the asked relation over the tuples that lead on and from the subject over what
//! it holds (`reach.rs`), always where less is to be looked at; where they meet it is held, and when either end has
//! nowhere to go any more it is not. So a check costs about as little as the cheaper end, however large the other is. It has
//! a budget, and all searches of one question together have a few; past it it says "cannot say", never no. The relations of one question share what was found out: after a no
//! every state on the way is a no, after a yes it is a yes, and what the subject holds is found once for all.

use std::ops::RangeInclusive;

use hashbrown::HashMap;

use super::graph::{Edge, Graph, Way};
use super::names::{Node, at};
use super::reach::Reach;
use super::rules::{Bound, Rule};
use super::words::Word;
use crate::facts::{Ask, Held, SubjectRef};

/// All searches of one question together visit at most so many budgets of states, and for each ask [`OWN_STATES`] more: who
/// puts relations into one question that are each dear pays for a few of them.
const WHOLE_BUDGETS: usize = 4;
const OWN_STATES: usize = 16;
/// How many edges [`Search::run_whole`] looks at before it sees whether it was given up.
const EDGES_BETWEEN_LOOKS: usize = 4_096;

/// One object and one relation of it.
pub(crate) type State = (Node, Word);

/// Subjects that are usersets.
const USERSETS: RangeInclusive<Word> = Word::FIRST..=Word::LAST;
/// Subjects that stand for themselves.
const PLAIN: RangeInclusive<Word> = Word::NONE..=Word::NONE;

/// One step of a search.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    state: State,
    rule: &'a Rule,
    lead: Lead,
}

/// From where a step came.
#[derive(Clone, Copy, Debug)]
struct Lead {
    /// Index of the step before; the first step names itself.
    from: usize,
    /// The relation of the tuple that led here.
    by: Word,
    /// Whether that tuple names the state's relation too; else it names the object only.
    userset: bool,
}

/// What an ask came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) held: Held,
    /// The tuples that satisfied it, one after the other; empty unless held.
    pub(crate) path: String,
}

impl Found {
    const fn without_path(held: Held) -> Self {
        Self { held, path: String::new() }
    }
}

/// How far a search came.
pub(crate) enum Progress {
    /// It wants to go on.
    More,
    /// One answer for each ask.
    Done(Vec<Found>),
}

/// What one end of a search has cost, in edges looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    edges: usize,
    /// With the next step; absent before it was reckoned.
    then: Option<usize>,
}

impl Spent {
    /// With the next step, whose cost is reckoned once.
    fn with_next(&mut self, cost: impl FnOnce() -> usize) -> usize {
        *self.then.get_or_insert_with(|| self.edges.saturating_add(cost()).saturating_add(1))
    }

    /// Makes it; how many edges it was.
    fn take(&mut self) -> usize {
        let before = self.edges;
        self.edges = self.then.take().unwrap_or(before);
        self.edges.saturating_sub(before)
    }
}

/// The search of one question.
pub(crate) struct Search<'a> {
    graph: &'a Graph,
    rules: &'a Bound,
    subject: &'a SubjectRef,
    /// What the subject holds, as far as it was followed; absent when no tuple names the subject.
    reach: Option<Reach<'a>>,
    asks: &'a [Ask],
    budget: usize,
    /// States that all searches together may visit still.
    whole: usize,
    given_up: bool,
    found: Vec<Found>,
    /// Everything that was visited: of the asks before all that is not held, and the queue's.
    seen: HashMap<State, usize>,
    held: HashMap<State, Vec<String>>,
    queue: Vec<Step<'a>>,
    next: usize,
    /// Room for what the present step leads to.
    leads: Vec<(State, Lead)>,
    /// Edges looked at from either end, and those of the next step.
    ahead: Spent,
    back: Spent,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        rules: &'a Bound,
        subject: &'a SubjectRef,
        asks: &'a [Ask],
        budget: usize,
    ) -> Self {
        let named = graph.node(&subject.kind, &subject.id).zip(graph.words.find(&subject.relation));
        let reach = named.map(|named| Reach::new(graph, rules, named));
        Self {
            graph,
            rules,
            subject,
            reach,
            asks,
            budget,
            whole: budget.saturating_mul(WHOLE_BUDGETS).saturating_add(asks.len().saturating_mul(OWN_STATES)),
            given_up: false,
            found: Vec::with_capacity(asks.len()),
            seen: HashMap::new(),
            held: HashMap::new(),
            queue: Vec::new(),
            next: 0,
            leads: Vec::new(),
            ahead: Spent::default(),
            back: Spent::default(),
        }
    }

    /// Everything at once, for callers that may take their time.
    pub(crate) fn run(mut self) -> Vec<Found> {
        loop {
            if let Progress::Done(found) = self.advance(usize::MAX) {
                return found;
            }
        }
    }

    /// The same; `None` as soon as one of the searches is given up.
    pub(crate) fn run_whole(mut self) -> Option<Vec<Found>> {
        loop {
            match self.advance(EDGES_BETWEEN_LOOKS) {
                _ if self.given_up => return None,
                Progress::Done(found) => return Some(found),
                Progress::More => {}
            }
        }
    }

    /// Looks at about `edges` more.
    pub(crate) fn advance(&mut self, edges: usize) -> Progress {
        let mut left = edges;
        while let Some(ask) = self.asks.get(self.found.len()) {
            let answer = if self.queue.is_empty() { self.begin(ask) } else { None };
            match answer.or_else(|| self.walk(&mut left)) {
                Some(answer) => self.end(answer),
                None => return Progress::More,
            }
        }
        Progress::Done(std::mem::take(&mut self.found))
    }

    /// Answers what needs no search, or puts its first state into the queue.
    fn begin(&mut self, ask: &Ask) -> Option<Found> {
        let kind = self.graph.words.find(&ask.object.kind);
        let state = kind.zip(self.graph.words.find(&ask.relation));
        let Some(rule) = state.and_then(|(kind, relation)| self.rules.rule(kind, relation)) else {
            return Some(Found::without_path(Held::No));
        };
        if self.is_own(ask) && rule.implied.iter().any(|word| self.is_word(*word)) {
            return Some(Found { held: Held::Yes, path: "the subject is this userset itself".to_owned() });
        }
        let relation = state.map_or(Word::NONE, |(_, relation)| relation);
        let Some(node) = self.graph.node(&ask.object.kind, &ask.object.id) else {
            return Some(Found::without_path(Held::No));
        };
        let state = (node, relation);
        if self.seen.contains_key(&state) {
            return Some(Found::without_path(Held::No));
        }
        (self.next, self.ahead, self.back) = (0, Spent::default(), Spent::default());
        self.enter(state, Lead { from: 0, by: Word::NONE, userset: false })
    }

    fn is_own(&self, ask: &Ask) -> bool {
        !self.subject.relation.is_empty()
            && (ask.object.kind.as_str(), ask.object.id.as_str())
                == (self.subject.kind.as_str(), self.subject.id.as_str())
    }

    fn is_word(&self, word: Word) -> bool {
        self.graph.words.text(word) == self.subject.relation
    }

    /// `None`: `left` is used up.
    fn walk(&mut self, left: &mut usize) -> Option<Found> {
        while let Some(step) = self.queue.get(self.next).copied() {
            if *left == 0 {
                return None;
            }
            // Whatever the subject holds is known, and none of it leads here.
            let Some(reach) = self.reach.as_ref().filter(|reach| !reach.is_done()) else { break };
            let back = self.back.with_next(|| reach.cost());
            let ahead = self.ahead.with_next(|| cost(self.graph, &step));
            let met = if ahead <= back {
                *left = left.saturating_sub(self.ahead.take());
                self.next += 1;
                self.expand(&step, self.next - 1)
            } else {
                *left = left.saturating_sub(self.back.take());
                self.follow()
            };
            if met.is_some() {
                return met;
            }
            if self.whole == 0 || self.seen.len() + self.reach.as_ref().map_or(0, Reach::len) > self.budget {
                self.given_up = true;
                return Some(Found::without_path(Held::Unknown));
            }
        }
        Some(Found::without_path(Held::No))
    }

    /// Visits what the state follows from.
    fn expand(&mut self, step: &Step<'a>, from: usize) -> Option<Found> {
        let mut leads = std::mem::take(&mut self.leads);
        for direct in &step.rule.direct {
            let lead = Lead { from, by: *direct, userset: true };
            self.graph.each(Way::Forward, step.state.0, *direct, USERSETS, |edge| {
                leads.push(((edge.node, edge.far), lead));
            });
        }
        for (tupleset, computed) in &step.rule.follow {
            let lead = Lead { from, by: *tupleset, userset: false };
            self.graph.each(Way::Forward, step.state.0, *tupleset, PLAIN, |edge| {
                leads.push(((edge.node, *computed), lead));
            });
        }
        let met = leads.drain(..).find_map(|(state, lead)| self.enter(state, lead));
        self.leads = leads;
        met
    }

    /// Puts a state into the queue, unless it was visited; the answer when it is known to be held.
    fn enter(&mut self, state: State, lead: Lead) -> Option<Found> {
        let rule = self.rules.rule(self.graph.names.kind(state.0), state.1)?;
        let index = self.queue.len();
        grow(&mut self.seen);
        self.seen.try_insert(state, index).ok()?;
        self.whole = self.whole.saturating_sub(1);
        let step = Step { state, rule, lead };
        self.queue.push(step);
        self.proof(&step).map(|rest| self.yes(index, rest))
    }

    /// The tuples by which the subject holds a state, as far as is known without a search.
    fn proof(&self, step: &Step<'_>) -> Option<Vec<String>> {
        if let Some(rest) = self.held.get(&step.state) {
            return Some(rest.clone());
        }
        let reach = self.reach.as_ref()?;
        if reach.has_begun() { reach.path(step.state) } else { self.own_tuple(reach.subject(), step) }
    }

    /// Whether a tuple of the subject's own gives it a state; with that tuple, and without when it is the userset itself.
    fn own_tuple(&self, (subject, of): State, step: &Step<'_>) -> Option<Vec<String>> {
        let Step { state: (node, _), rule, .. } = *step;
        if of != Word::NONE && node == subject && rule.implied.contains(&of) {
            return Some(Vec::new());
        }
        let by = |direct: &&Word| self.graph.contains(node, Edge { near: **direct, far: of, node: subject });
        let direct = rule.direct.iter().find(by)?;
        Some(vec![tuple_text(self.graph, node, *direct, subject, of)])
    }

    /// One step from the subject's end.
    fn follow(&mut self) -> Option<Found> {
        let reach = self.reach.as_mut()?;
        let known = reach.len();
        reach.step();
        self.whole = self.whole.saturating_sub(reach.len().saturating_sub(known));
        let met = reach.since(known).find_map(|state| Some((state, *self.seen.get(&state)?)));
        let (state, index) = met?;
        let rest = reach.path(state)?;
        Some(self.yes(index, rest))
    }

    /// Keeps what is known for sure of the states that were visited, and forgets the rest.
    fn end(&mut self, found: Found) {
        if found.held != Held::No {
            for step in &self.queue {
                self.seen.remove(&step.state);
            }
        }
        self.queue.clear();
        self.found.push(found);
    }

    /// The states on the way to a state that is held are held.
    fn yes(&mut self, index: usize, rest: Vec<String>) -> Found {
        let mut tuples = rest;
        tuples.reverse();
        let mut index = index;
        while index > 0
            && let Some(step) = self.queue.get(index)
            && let Lead { from, by, userset } = step.lead
            && let Some(before) = self.queue.get(from)
        {
            let of = if userset { step.state.1 } else { Word::NONE };
            tuples.push(tuple_text(self.graph, before.state.0, by, step.state.0, of));
            index = from;
        }
        tuples.reverse();
        let path = tuples.join(" > ");
        if let Some(first) = self.queue.first() {
            self.held.insert(first.state, tuples);
        }
        Found { held: Held::Yes, path }
    }
}

/// How many edges lead on from a step.
fn cost(graph: &Graph, step: &Step<'_>) -> usize {
    let usersets = step.rule.direct.iter().map(|direct| (*direct, USERSETS));
    let follow = step.rule.follow.iter().map(|(tupleset, _)| (*tupleset, PLAIN));
    usersets.chain(follow).map(|(near, far)| graph.degree(Way::Forward, step.state.0, near, far)).sum()
}

/// Makes room for four times as much when there is none: half as many moves as the table's own doubling.
pub(super) fn grow(seen: &mut HashMap<State, usize>) {
    if seen.len() == seen.capacity() {
        seen.reserve(seen.len().saturating_mul(3).max(24));
    }
}

/// `type:id#relation@type:id[#relation]`.
pub(super) fn tuple_text(graph: &Graph, object: Node, relation: Word, subject: Node, of: Word) -> String {
    let (object, subject) = (graph.name(object), graph.name(subject));
    let relation = graph.words.text(relation);
    match graph.words.text(of) {
        "" => [&object, "#", relation, "@", &subject].concat(),
        of => [&object, "#", relation, "@", &subject, "#", of].concat(),
    }
}

/// A budget as a number of states.
pub(super) fn states(budget: i64) -> usize {
    u32::try_from(budget).map_or(usize::MAX, at)
}
