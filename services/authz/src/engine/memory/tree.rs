//! Why somebody holds a relation, or does not: the tree of what the relation follows from, as far as it was worth looking.

use serde::Serialize;

use super::graph::{Edge, Graph, Way};
use super::names::Node;
use super::rules::Bound;
use super::search::{Search, State, tuple_text};
use super::words::Word;
use crate::facts::{Ask, Held, SubjectRef};
use contract::decision::ObjectRef;

/// Most nodes of a tree: more than anybody reads.
pub(crate) const MAX_NODES: usize = 200;

/// One relation of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tree {
    object: String,
    relation: String,
    held: bool,
    /// The tuple by which the subject holds it itself.
    tuple: Option<String>,
    /// What it follows from besides.
    from: Vec<Branch>,
    /// It stands elsewhere in the tree with what it follows from.
    repeated: bool,
    /// There is more that it follows from.
    truncated: bool,
}

/// A tuple that leads on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    tuple: String,
    to: Tree,
}

struct Planter<'a> {
    graph: &'a Graph,
    rules: &'a Bound,
    subject: &'a SubjectRef,
    named: Option<(Node, Word)>,
    planted: Vec<State>,
}

/// The tree of one relation; `None`: the object is in no tuple, or the model does not know the relation.
pub(crate) fn plant(
    graph: &Graph,
    rules: &Bound,
    subject: &SubjectRef,
    ask: &Ask,
    budget: usize,
) -> Option<Tree> {
    let node = graph.node(&ask.object.kind, &ask.object.id)?;
    let relation = graph.words.find(&ask.relation)?;
    rules.rule(graph.names.kind(node), relation)?;
    let named = graph.node(&subject.kind, &subject.id).zip(graph.words.find(&subject.relation));
    let mut planter = Planter { graph, rules, subject, named, planted: Vec::new() };
    let mut tree = planter.grow((node, relation));
    planter.tell(&mut tree, budget);
    Some(tree)
}

impl Planter<'_> {
    fn grow(&mut self, state: State) -> Tree {
        let (node, relation) = state;
        let repeated = self.planted.contains(&state);
        let mut tree = Tree {
            object: self.graph.name(node),
            relation: self.graph.words.text(relation).to_owned(),
            held: false,
            tuple: self.own_tuple(state),
            from: Vec::new(),
            repeated,
            truncated: false,
        };
        if repeated {
            return tree;
        }
        self.planted.push(state);
        for (tuple, next) in self.leads(state) {
            if self.planted.len() >= MAX_NODES {
                tree.truncated = true;
                break;
            }
            let to = self.grow(next);
            tree.from.push(Branch { tuple, to });
        }
        tree
    }

    fn own_tuple(&self, (node, relation): State) -> Option<String> {
        let (subject, of) = self.named?;
        let rule = self.rules.rule(self.graph.names.kind(node), relation)?;
        let by = |word: &&Word| self.graph.contains(node, Edge { near: **word, far: of, node: subject });
        rule.direct.iter().find(by).map(|word| tuple_text(self.graph, node, *word, subject, of))
    }

    /// The tuples that lead on, and where to; one more than fit at most.
    fn leads(&self, (node, relation): State) -> Vec<(String, State)> {
        let mut leads = Vec::new();
        let Some(rule) = self.rules.rule(self.graph.names.kind(node), relation) else { return leads };
        let known = |state: State| self.rules.rule(self.graph.names.kind(state.0), state.1).is_some();
        let mut lead = |by: Word, of: Word, state: State| {
            if leads.len() <= MAX_NODES && known(state) {
                leads.push((tuple_text(self.graph, node, by, state.0, of), state));
            }
        };
        for direct in &rule.direct {
            self.graph.each(Way::Forward, node, *direct, Word::FIRST..=Word::LAST, |edge| {
                lead(*direct, edge.far, (edge.node, edge.far));
            });
        }
        for (tupleset, computed) in &rule.follow {
            self.graph.each(Way::Forward, node, *tupleset, Word::NONE..=Word::NONE, |edge| {
                lead(*tupleset, Word::NONE, (edge.node, *computed));
            });
        }
        leads
    }

    /// Asks about every node at once.
    fn tell(&self, tree: &mut Tree, budget: usize) {
        let asks: Vec<Ask> = self.planted.iter().map(|state| self.ask(*state)).collect();
        let found = Search::new(self.graph, self.rules, self.subject, &asks, budget).run();
        let held: Vec<(String, &str)> = asks
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.held == Held::Yes)
            .map(|(ask, _)| (ask.object.to_string(), ask.relation.as_str()))
            .collect();
        mark(tree, &held);
    }

    fn ask(&self, (node, relation): State) -> Ask {
        let kind = self.graph.words.text(self.graph.names.kind(node)).to_owned();
        let object = ObjectRef { kind, id: self.graph.names.id(node) };
        Ask::new(object, self.graph.words.text(relation))
    }
}

fn mark(tree: &mut Tree, held: &[(String, &str)]) {
    tree.held = held.iter().any(|(object, relation)| *object == tree.object && *relation == tree.relation);
    for branch in &mut tree.from {
        mark(&mut branch.to, held);
    }
}
