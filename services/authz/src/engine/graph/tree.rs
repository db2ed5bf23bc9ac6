//! Builds the tree that explains why a subject does or does not hold a relation. The tree does not follow what it may
//! not show (`Shown`) and does not reveal that it exists. It is limited in every dimension, so that an answer about a
//! deep or a widely shared object is as small as any other.

use crate::engine::answers::{Branch, Shown, Tree};
use crate::engine::facts::{Ask, Held, SubjectRef};
use crate::engine::graph::names::Node;
use crate::engine::graph::rules::{Bound, Rule};
use crate::engine::graph::search::{Search, State, tuple_text};
use crate::engine::graph::words::Word;
use crate::engine::graph::{Edge, Graph, Way};

/// Maximum number of nodes in a tree, including repeated ones: more than a reader can use.
const MAX_NODES: usize = 200;
/// Maximum number of levels. One level takes three levels of JSON, and JSON parsers commonly stop at 128.
const MAX_HEIGHT: usize = 32;
/// Maximum number of bytes of text, because names may be long.
const MAX_TEXT: usize = 32 << 10;

struct Planter<'a> {
    graph: &'a Graph,
    rules: &'a Bound,
    named: Option<(Node, Word)>,
    shown: Shown,
    planted: Vec<State>,
    /// Decides whether each state is held.
    search: Search<'a>,
    nodes: usize,
    text: usize,
}

/// A tuple that leads to another state: its relation, its subject's relation, and that state.
type Lead = (Word, Word, State);

/// Builds the tree of one relation; `None` when no tuple names the object, the model does not know the relation, or
/// nothing of it may be shown.
pub(crate) fn plant(
    graph: &Graph,
    rules: &Bound,
    subject: &SubjectRef,
    ask: &Ask,
    shown: Shown,
    budget: usize,
) -> Option<Tree> {
    let node = graph.node(&ask.object.kind, &ask.object.id)?;
    let relation = graph.words.find(&ask.relation)?;
    rules.rule(graph.names.kind(node), relation)?;
    let named = graph.node(&subject.kind, &subject.id).zip(graph.words.find(&subject.relation));
    let search = Search::of_states(graph, rules, subject, MAX_NODES, budget);
    let mut planter = Planter { graph, rules, named, shown, planted: Vec::new(), search, nodes: 0, text: 0 };
    planter.shows_all(node).then(|| planter.grow((node, relation), 1))
}

impl Planter<'_> {
    fn grow(&mut self, state: State, height: usize) -> Tree {
        let (node, relation) = state;
        self.nodes += 1;
        let mut tree = Tree {
            object: self.graph.name(node),
            relation: self.graph.words.text(relation).to_owned(),
            held: false,
            tuple: self.own_tuple(state),
            from: Vec::new(),
            repeated: self.planted.contains(&state),
            truncated: false,
        };
        self.text += tree.object.len() + tree.relation.len() + tree.tuple.as_ref().map_or(0, String::len);
        if !tree.repeated {
            self.planted.push(state);
            self.branch(&mut tree, state, height);
        }
        // Decided after the branches, whose results mostly answer it.
        tree.held = self.holds(state);
        // A held relation without a visible reason rests on a tuple that was left out.
        let told = tree.repeated || tree.tuple.is_some() || !tree.from.is_empty();
        tree.truncated |= tree.held && !told;
        tree
    }

    fn branch(&mut self, tree: &mut Tree, state: State, height: usize) {
        let all = self.shows_all(state.0);
        for (by, of, next) in self.leads(state) {
            if !all && !self.holds(next) {
                continue;
            }
            if height == MAX_HEIGHT || self.nodes >= MAX_NODES || self.text >= MAX_TEXT {
                tree.truncated = true;
                break;
            }
            let tuple = tuple_text(self.graph, state.0, by, next.0, of);
            self.text += tuple.len();
            let to = self.grow(next, height + 1);
            tree.from.push(Branch { tuple, to });
        }
    }

    /// Whether all tuples of an object are shown.
    fn shows_all(&mut self, node: Node) -> bool {
        match self.shown {
            Shown::All => true,
            Shown::Managed => {
                let kind = self.graph.words.text(self.graph.names.kind(node));
                let relation = self.rules.model.manager_relation(kind);
                let relation = relation.and_then(|relation| self.graph.words.find(relation));
                relation.is_some_and(|relation| self.holds((node, relation)))
            }
        }
    }

    fn holds(&mut self, state: State) -> bool {
        self.search.holds(state) == Held::Yes
    }

    fn rule(&self, (node, relation): State) -> Option<&Rule> {
        self.rules.rule(self.graph.names.kind(node), relation)
    }

    fn own_tuple(&self, state: State) -> Option<String> {
        let (subject, of) = self.named?;
        let node = state.0;
        let by = |word: &&Word| self.graph.contains(node, Edge { near: **word, far: of, node: subject });
        let word = self.rule(state)?.direct.iter().find(by)?;
        Some(tuple_text(self.graph, node, *word, subject, of))
    }

    /// The tuples that lead to other states; at most one more than fit.
    fn leads(&self, state: State) -> Vec<Lead> {
        let mut leads: Vec<Lead> = Vec::new();
        let Some(rule) = self.rule(state) else { return leads };
        let mut lead = |by: Word, of: Word, next: State| {
            if leads.len() <= MAX_NODES && self.rule(next).is_some() {
                leads.push((by, of, next));
            }
        };
        for direct in &rule.direct {
            self.graph.each(Way::Forward, state.0, *direct, Word::FIRST..=Word::LAST, |edge| {
                lead(*direct, edge.far, (edge.node, edge.far));
            });
        }
        for (tupleset, computed) in &rule.follow {
            self.graph.each(Way::Forward, state.0, *tupleset, Word::NONE..=Word::NONE, |edge| {
                lead(*tupleset, Word::NONE, (edge.node, *computed));
            });
        }
        leads
    }
}
