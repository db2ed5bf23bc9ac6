//! The compiled model in the numbers of one graph: for every relation of every type what it follows from, and the same
//! the other way round, for lists.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::engine::graph::Graph;
use crate::engine::graph::words::{Full, Word};
use crate::engine::model::Model;

/// What holding one relation follows from.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    /// Tuples of these relations count.
    pub(crate) direct: Vec<Word>,
    /// Tuples of the first lead on to the second of the object they name.
    pub(crate) follow: Vec<(Word, Word)>,
    /// Relations of the same object that imply it, itself among them.
    pub(crate) implied: Vec<Word>,
}

/// What follows from a relation of an object, by the type of the object that holds it.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    /// A tuple of the first makes its subject hold the second.
    pub(crate) direct: HashMap<Word, Vec<Word>>,
    /// A tuple of the first makes the holders of each second of its subject hold the third.
    pub(crate) follow: HashMap<Word, Vec<(Word, Word)>>,
    /// Holders of the first hold the second.
    pub(crate) implied: HashMap<Word, Vec<Word>>,
}

/// The model of one graph.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) model: Arc<Model>,
    rules: HashMap<(Word, Word), Rule>,
    consequences: HashMap<Word, Consequences>,
    computed: HashSet<Word>,
}

impl Bound {
    /// Teaches the graph the words of the model, and speaks of it in their numbers.
    pub(crate) fn new(model: Arc<Model>, graph: &mut Graph) -> Result<Self, Full> {
        let names = model.rules.iter().flat_map(|(name, of_type)| {
            let inner = of_type.iter().flat_map(|(relation, rules)| {
                let follow = rules.follow.iter().flat_map(|step| [&step.tupleset, &step.computed]);
                rules.direct.iter().chain(&rules.implied).chain(follow).chain([relation])
            });
            inner.chain([name]).map(String::as_str)
        });
        graph.learn(names)?;
        let word = |text: &String| graph.words.find(text).unwrap_or(Word::NONE);
        let mut rules = HashMap::new();
        for (name, of_type) in &model.rules {
            for (relation, of_relation) in of_type {
                let rule = Rule {
                    direct: of_relation.direct.iter().map(word).collect(),
                    follow: of_relation
                        .follow
                        .iter()
                        .map(|step| (word(&step.tupleset), word(&step.computed)))
                        .collect(),
                    implied: of_relation.implied.iter().map(word).collect(),
                };
                rules.insert((word(name), word(relation)), rule);
            }
        }
        let consequences = turned(&rules);
        let computed = rules.values().flat_map(|rule| &rule.follow).map(|(_, computed)| *computed).collect();
        Ok(Self { model, rules, consequences, computed })
    }

    /// The rule of a relation; `None`: the model does not have it, so nobody holds it.
    pub(crate) fn rule(&self, kind: Word, relation: Word) -> Option<&Rule> {
        self.rules.get(&(kind, relation))
    }

    /// Whether anything is computed from a relation over a tuple that names its object.
    pub(crate) fn is_computed(&self, relation: Word) -> bool {
        self.computed.contains(&relation)
    }

    /// What follows for objects of a type.
    pub(crate) fn consequences(&self, kind: Word) -> Option<&Consequences> {
        self.consequences.get(&kind)
    }
}

fn turned(rules: &HashMap<(Word, Word), Rule>) -> HashMap<Word, Consequences> {
    let mut turned: HashMap<Word, Consequences> = HashMap::new();
    for ((kind, relation), rule) in rules {
        let of_kind = turned.entry(*kind).or_default();
        for direct in &rule.direct {
            of_kind.direct.entry(*direct).or_default().push(*relation);
        }
        for (tupleset, computed) in &rule.follow {
            of_kind.follow.entry(*tupleset).or_default().push((*computed, *relation));
        }
        for implied in &rule.implied {
            of_kind.implied.entry(*implied).or_default().push(*relation);
        }
    }
    turned
}
