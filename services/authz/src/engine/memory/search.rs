//! Who holds what: a search over (object, relation), each visited once, so it is an exact least fixpoint that ends on
//! every cycle. It has a budget and says "cannot say" past it, never no. The relations of one question share what was
//! found out about each state: after a no every state on the way is a no, after a yes the states of the path are yes.

use std::collections::HashMap;

use hashbrown::HashSet;

use super::graph::{Edge, Graph, Way};
use super::names::{Node, at};
use super::rules::Bound;
use super::words::Word;
use crate::facts::{Ask, Held, SubjectRef};

/// One object and one relation of it.
pub(crate) type State = (Node, Word);

/// One step of a search, and from where it came.
#[derive(Clone, Copy, Debug)]
struct Step {
    state: State,
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

/// The search of one question.
pub(crate) struct Search<'a> {
    graph: &'a Graph,
    rules: &'a Bound,
    subject: &'a SubjectRef,
    /// The subject as tuples name it; absent when none does.
    named: Option<(Node, Word)>,
    asks: &'a [Ask],
    budget: usize,
    found: Vec<Found>,
    seen: HashSet<State>,
    held: HashMap<State, String>,
    queue: Vec<Step>,
    next: usize,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        rules: &'a Bound,
        subject: &'a SubjectRef,
        asks: &'a [Ask],
        budget: usize,
    ) -> Self {
        let relation = graph.words.find(&subject.relation);
        let named = graph.node(&subject.kind, &subject.id).zip(relation);
        let (seen, held, queue, found) = (HashSet::new(), HashMap::new(), Vec::new(), Vec::new());
        Self { graph, rules, subject, named, asks, budget, found, seen, held, queue, next: 0 }
    }

    /// Everything at once, for callers that may take their time.
    pub(crate) fn run(mut self) -> Vec<Found> {
        loop {
            if let Progress::Done(found) = self.advance(usize::MAX) {
                return found;
            }
        }
    }

    /// Visits about `states` more.
    pub(crate) fn advance(&mut self, states: usize) -> Progress {
        let mut left = states;
        while let Some(ask) = self.asks.get(self.found.len()) {
            if self.queue.is_empty() {
                match self.begin(ask) {
                    Some(answer) => {
                        self.found.push(answer);
                        continue;
                    }
                    None => self.next = 0,
                }
            }
            match self.walk(&mut left) {
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
        if let Some(path) = self.held.get(&state) {
            return Some(Found { held: Held::Yes, path: path.clone() });
        }
        if !self.seen.insert(state) {
            return Some(Found::without_path(Held::No));
        }
        self.queue.push(Step { state, from: 0, by: Word::NONE, userset: false });
        None
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
            *left -= 1;
            if let Some(last) = self.satisfied(step.state) {
                return Some(Found { held: Held::Yes, path: self.path(self.next, last) });
            }
            if let Some(rest) = self.held.get(&step.state) {
                let rest = rest.clone();
                return Some(Found { held: Held::Yes, path: self.path(self.next, Some(rest)) });
            }
            self.expand(step.state, self.next);
            if self.seen.len() > self.budget {
                return Some(Found::without_path(Held::Unknown));
            }
            self.next += 1;
        }
        Some(Found::without_path(Held::No))
    }

    /// Whether the subject holds a state by a tuple of its own; with that tuple, or nothing when it is the userset itself.
    #[expect(clippy::option_option, reason = "no, yes, and yes without a tuple to show")]
    fn satisfied(&self, (node, relation): State) -> Option<Option<String>> {
        let (subject, of) = self.named?;
        let rule = self.rules.rule(self.graph.names.kind(node), relation)?;
        if of != Word::NONE && node == subject && rule.implied.contains(&of) {
            return Some(None);
        }
        let by = |direct: &&Word| self.graph.contains(node, Edge { near: **direct, far: of, node: subject });
        rule.direct.iter().find(by).map(|direct| Some(self.tuple(node, *direct, subject, of)))
    }

    fn expand(&mut self, (node, relation): State, from: usize) {
        let Some(rule) = self.rules.rule(self.graph.names.kind(node), relation) else { return };
        let (graph, rules) = (self.graph, self.rules);
        let (seen, queue) = (&mut self.seen, &mut self.queue);
        let mut visit = |state: State, by: Word, userset: bool| {
            if rules.rule(graph.names.kind(state.0), state.1).is_some() && seen.insert(state) {
                queue.push(Step { state, from, by, userset });
            }
        };
        for direct in &rule.direct {
            let usersets = Word::FIRST..=Word::LAST;
            graph.each(Way::Forward, node, *direct, usersets, |edge| {
                visit((edge.node, edge.far), *direct, true);
            });
        }
        for (tupleset, computed) in &rule.follow {
            let plain = Word::NONE..=Word::NONE;
            graph.each(Way::Forward, node, *tupleset, plain, |edge| {
                visit((edge.node, *computed), *tupleset, false);
            });
        }
    }

    /// Keeps what is known for sure of the states that were visited, and forgets the rest.
    fn end(&mut self, found: Found) {
        if found.held != Held::No {
            for step in &self.queue {
                self.seen.remove(&step.state);
            }
        }
        if found.held == Held::Yes
            && let Some(first) = self.queue.first()
        {
            self.held.insert(first.state, found.path.clone());
        }
        self.queue.clear();
        self.found.push(found);
    }

    fn path(&self, last: usize, end: Option<String>) -> String {
        let mut tuples: Vec<String> = end.into_iter().filter(|text| !text.is_empty()).collect();
        let mut index = last;
        while index > 0
            && let Some(step) = self.queue.get(index)
            && let Some(before) = self.queue.get(step.from)
        {
            let of = if step.userset { step.state.1 } else { Word::NONE };
            tuples.push(self.tuple(before.state.0, step.by, step.state.0, of));
            index = step.from;
        }
        tuples.reverse();
        tuples.join(" > ")
    }

    fn tuple(&self, object: Node, relation: Word, subject: Node, of: Word) -> String {
        tuple_text(self.graph, object, relation, subject, of)
    }
}

/// `type:id#relation@type:id[#relation]`.
pub(super) fn tuple_text(graph: &Graph, object: Node, relation: Word, subject: Node, of: Word) -> String {
    let (object, subject) = (graph.name(object), graph.name(subject));
    let relation = graph.words.text(relation);
    match graph.words.text(of) {
        "" => format!("{object}#{relation}@{subject}"),
        of => format!("{object}#{relation}@{subject}#{of}"),
    }
}

/// A budget as a number of states.
pub(super) fn states(budget: i64) -> usize {
    u32::try_from(budget).map_or(usize::MAX, at)
}
