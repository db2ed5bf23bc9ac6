//! Decides who holds what: a search over (object, relation) states that visits each once, so it is an exact least
//! fixpoint and ends on every cycle. It searches from both sides, from the requested relation over the tuples that lead
//! to it and from the subject over what it holds (`reach.rs`), and always continues where there is less to look at. The
//! relation is held when the sides meet and not held when either side is exhausted. A check therefore costs about as
//! much as its cheaper side, however large the other is. Each search has a budget, and all searches of one question
//! share a few; past it the answer is "unknown", never a no. The relations of one question share results: after a no,
//! every visited state is a no; after a yes, the requested state is a yes; and what the subject holds is found once.

use std::ops::RangeInclusive;

use hashbrown::HashMap;

use crate::engine::facts::{Ask, Held, SubjectRef};
use crate::engine::graph::names::{Node, at};
use crate::engine::graph::reach::Reach;
use crate::engine::graph::rules::{Bound, Rule};
use crate::engine::graph::words::Word;
use crate::engine::graph::{Edge, Graph, Way};

/// All searches of one question together visit at most this many budgets of states, plus [`OWN_STATES`] per relation,
/// so that a question with many expensive relations costs no more than a few.
const WHOLE_BUDGETS: usize = 4;
const OWN_STATES: usize = 16;
/// Maximum number of tuples kept per path: enough for a reader, and few enough for each answer of a batch.
pub(crate) const MAX_PATH_TUPLES: usize = 32;
/// Marks a path that was cut.
const MORE: &str = "…";

/// One relation on one object.
pub(crate) type State = (Node, Word);

/// Subjects that are usersets.
const USERSETS: RangeInclusive<Word> = Word::FIRST..=Word::LAST;
/// Subjects without a relation.
const PLAIN: RangeInclusive<Word> = Word::NONE..=Word::NONE;

/// One step of a search.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    state: State,
    rule: &'a Rule,
    lead: Lead,
}

/// How a search reached a step.
#[derive(Clone, Copy, Debug)]
struct Lead {
    /// Index of the previous step; the first step points to itself.
    from: usize,
    /// The relation of the tuple that led here.
    by: Word,
    /// Whether that tuple names the state's relation too; otherwise it names the object only.
    userset: bool,
}

/// The answer for one relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) held: Held,
    /// The chain of the first tuples that satisfied it; empty unless held.
    pub(crate) path: String,
    /// Whether the path was cut.
    pub(crate) is_cut: bool,
}

/// The first tuples of a path, starting at the requested relation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    pub(crate) tuples: Vec<String>,
    /// Whether tuples were left out.
    pub(crate) is_cut: bool,
}

impl Path {
    fn text(&self) -> String {
        let text = self.tuples.join(" > ");
        if self.is_cut { [&text, " > ", MORE].concat() } else { text }
    }
}

impl Found {
    const fn without_path(held: Held) -> Self {
        Self { held, path: String::new(), is_cut: false }
    }
}

/// The progress of a search.
pub(crate) enum Progress {
    /// The search is not finished.
    More,
    /// One answer per relation.
    Done(Vec<Found>),
}

/// The cost of one side of a search, in edges looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    edges: usize,
    /// Including the next step; absent until computed.
    then: Option<usize>,
}

impl Spent {
    /// The cost including the next step, which is computed once.
    fn with_next(&mut self, cost: impl FnOnce() -> usize) -> usize {
        *self.then.get_or_insert_with(|| self.edges.saturating_add(cost()).saturating_add(1))
    }

    /// Charges the next step; returns its number of edges.
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
    /// What the subject holds, as far as known; absent when no tuple names the subject.
    reach: Option<Reach<'a>>,
    asks: &'a [Ask],
    budget: usize,
    /// States that all searches together may still visit.
    whole: usize,
    found: Vec<Found>,
    /// All visited states: those that earlier searches found not held, and those in the queue.
    seen: HashMap<State, usize>,
    held: HashMap<State, Path>,
    /// Maximum number of tuples per path; zero when no path is needed.
    most_tuples: usize,
    queue: Vec<Step<'a>>,
    next: usize,
    /// Scratch space for what the current step leads to.
    leads: Vec<(State, Lead)>,
    /// The cost of either side, including its next step.
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
            found: Vec::with_capacity(asks.len()),
            seen: HashMap::new(),
            held: HashMap::new(),
            most_tuples: MAX_PATH_TUPLES,
            queue: Vec::new(),
            next: 0,
            leads: Vec::new(),
            ahead: Spent::default(),
            back: Spent::default(),
        }
    }

    /// Creates a search for [`Self::holds`] calls on this many states, without paths.
    pub(crate) fn of_states(
        graph: &'a Graph,
        rules: &'a Bound,
        subject: &'a SubjectRef,
        states: usize,
        budget: usize,
    ) -> Self {
        let mut search = Self::new(graph, rules, subject, &[], budget).without_paths();
        search.whole = search.whole.saturating_add(states.saturating_mul(OWN_STATES));
        search
    }

    /// The same search, whose answers have no paths.
    pub(crate) const fn without_paths(mut self) -> Self {
        self.most_tuples = 0;
        self
    }

    /// Whether the subject, which must not be a userset, holds a state. Reuses all earlier results.
    pub(crate) fn holds(&mut self, state: State) -> Held {
        if self.seen.contains_key(&state)
            || self.rules.rule(self.graph.names.kind(state.0), state.1).is_none()
        {
            return Held::No;
        }
        let mut edges = usize::MAX;
        let answer = self.set_out(state).or_else(|| self.walk(&mut edges));
        let held = answer.map_or(Held::Unknown, |found| found.held);
        self.keep(held);
        held
    }

    /// Runs to the end at once, for callers that need not yield.
    pub(crate) fn run(mut self) -> Vec<Found> {
        loop {
            if let Progress::Done(found) = self.advance(usize::MAX) {
                return found;
            }
        }
    }

    /// Looks at about `edges` more edges.
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

    /// Answers without a search where possible; otherwise queues the first state.
    fn begin(&mut self, ask: &Ask) -> Option<Found> {
        let kind = self.graph.words.find(&ask.object.kind);
        let state = kind.zip(self.graph.words.find(&ask.relation));
        let Some(rule) = state.and_then(|(kind, relation)| self.rules.rule(kind, relation)) else {
            return Some(Found::without_path(Held::No));
        };
        if self.is_own(ask) && rule.implied.iter().any(|word| self.is_word(*word)) {
            let path = "the subject is this userset itself".to_owned();
            return Some(Found { held: Held::Yes, path, is_cut: false });
        }
        let relation = state.map_or(Word::NONE, |(_, relation)| relation);
        let Some(node) = self.graph.node(&ask.object.kind, &ask.object.id) else {
            return Some(Found::without_path(Held::No));
        };
        let state = (node, relation);
        if self.seen.contains_key(&state) {
            return Some(Found::without_path(Held::No));
        }
        self.set_out(state)
    }

    /// Queues the first state of a search; returns the answer if the state is known to be held.
    fn set_out(&mut self, state: State) -> Option<Found> {
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

    /// Searches until it has an answer; `None` when `left` is used up.
    fn walk(&mut self, left: &mut usize) -> Option<Found> {
        while let Some(step) = self.queue.get(self.next).copied() {
            if *left == 0 {
                return None;
            }
            // Everything that the subject holds is known, and none of it leads here.
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
                return Some(Found::without_path(Held::Unknown));
            }
        }
        Some(Found::without_path(Held::No))
    }

    /// Visits the states that this one follows from.
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

    /// Queues a state unless it was visited; returns the answer if it is known to be held.
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

    /// The tuples through which the subject holds a state, as far as is known without a search.
    fn proof(&self, step: &Step<'_>) -> Option<Path> {
        if let Some(rest) = self.held.get(&step.state) {
            return Some(rest.clone());
        }
        let reach = self.reach.as_ref()?;
        if reach.has_begun() {
            reach.path(step.state, self.most_tuples)
        } else {
            self.own_tuple(reach.subject(), step)
        }
    }

    /// The subject's own tuple that gives it a state, if any; an empty path when the subject is a userset that implies
    /// it.
    fn own_tuple(&self, (subject, of): State, step: &Step<'_>) -> Option<Path> {
        let Step { state: (node, _), rule, .. } = *step;
        if of != Word::NONE && node == subject && rule.implied.contains(&of) {
            return Some(Path::default());
        }
        let by = |direct: &&Word| self.graph.contains(node, Edge { near: **direct, far: of, node: subject });
        let direct = rule.direct.iter().find(by)?;
        if self.most_tuples == 0 {
            return Some(Path::default());
        }
        Some(Path { tuples: vec![tuple_text(self.graph, node, *direct, subject, of)], is_cut: false })
    }

    /// Takes one step from the subject's side.
    fn follow(&mut self) -> Option<Found> {
        let reach = self.reach.as_mut()?;
        let known = reach.len();
        reach.step();
        self.whole = self.whole.saturating_sub(reach.len().saturating_sub(known));
        let met = reach.since(known).find_map(|state| Some((state, *self.seen.get(&state)?)));
        let (state, index) = met?;
        let rest = reach.path(state, self.most_tuples)?;
        Some(self.yes(index, rest))
    }

    fn end(&mut self, found: Found) {
        self.keep(found.held);
        self.found.push(found);
    }

    /// Keeps the visited states after a no; forgets them otherwise.
    fn keep(&mut self, held: Held) {
        if held != Held::No {
            for step in &self.queue {
                self.seen.remove(&step.state);
            }
        }
        self.queue.clear();
    }

    /// Builds the answer of a held relation and remembers its first state as held.
    fn yes(&mut self, index: usize, rest: Path) -> Found {
        let path = self.path_over(index, rest);
        let (text, is_cut) =
            if self.most_tuples == 0 { (String::new(), false) } else { (path.text(), path.is_cut) };
        if let Some(first) = self.queue.first() {
            self.held.insert(first.state, path);
        }
        Found { held: Held::Yes, path: text, is_cut }
    }

    /// The path from the first state to one in the queue, followed by `rest`.
    fn path_over(&self, index: usize, rest: Path) -> Path {
        let length = self.way_back(index).count();
        let kept = length.min(self.most_tuples);
        let room = self.most_tuples.saturating_sub(kept);
        let is_cut = rest.is_cut || length > kept || rest.tuples.len() > room;
        let text = |(before, step): (State, &Step<'a>)| {
            let of = if step.lead.userset { step.state.1 } else { Word::NONE };
            tuple_text(self.graph, before.0, step.lead.by, step.state.0, of)
        };
        let mut tuples = rest.tuples;
        tuples.truncate(room);
        tuples.reverse();
        tuples.extend(self.way_back(index).skip(length.saturating_sub(kept)).map(text));
        tuples.reverse();
        Path { tuples, is_cut }
    }

    /// The steps from one in the queue back to the first, each with the state before it.
    fn way_back(&self, index: usize) -> impl Iterator<Item = (State, &Step<'a>)> {
        let mut at = index;
        std::iter::from_fn(move || {
            let step = self.queue.get(at).filter(|_| at > 0)?;
            at = step.lead.from;
            self.queue.get(at).map(|before| (before.state, step))
        })
    }
}

/// Number of edges that a step looks at.
fn cost(graph: &Graph, step: &Step<'_>) -> usize {
    let usersets = step.rule.direct.iter().map(|direct| (*direct, USERSETS));
    let follow = step.rule.follow.iter().map(|(tupleset, _)| (*tupleset, PLAIN));
    usersets.chain(follow).map(|(near, far)| graph.degree(Way::Forward, step.state.0, near, far)).sum()
}

/// Quadruples the capacity when it is exhausted: half as many moves as the table's own doubling.
pub(crate) fn grow(seen: &mut HashMap<State, usize>) {
    if seen.len() == seen.capacity() {
        seen.reserve(seen.len().saturating_mul(3).max(24));
    }
}

/// Formats a tuple as `type:id#relation@type:id[#relation]`.
pub(crate) fn tuple_text(graph: &Graph, object: Node, relation: Word, subject: Node, of: Word) -> String {
    let (object, subject) = (graph.name(object), graph.name(subject));
    let relation = graph.words.text(relation);
    match graph.words.text(of) {
        "" => [&object, "#", relation, "@", &subject].concat(),
        of => [&object, "#", relation, "@", &subject, "#", of].concat(),
    }
}

/// Converts a budget to a number of states.
pub(crate) fn states(budget: i64) -> usize {
    u32::try_from(budget).map_or(usize::MAX, at)
}
