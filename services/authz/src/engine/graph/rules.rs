//! The compiled model in the numbers of one graph: for every relation of every type, what it follows from and, for
//! lists, what follows from it.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::engine::graph::Graph;
use crate::engine::graph::words::{Full, Word};
use crate::engine::model::Model;

/// The ways to hold one relation.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    /// Relations whose tuples give it.
    pub(crate) direct: Vec<Word>,
    /// `(tupleset, computed)`: a tuple of the first leads to the second on the object that it names.
    pub(crate) follow: Vec<(Word, Word)>,
    /// Relations of the same object that imply it, including itself.
    pub(crate) implied: Vec<Word>,
}

/// What follows from tuples and relations, for one type of object.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    /// A tuple of the key gives its subject these relations.
    pub(crate) direct: HashMap<Word, Vec<Word>>,
    /// A tuple of the key gives the holders of each first relation on its subject the second relation.
    pub(crate) follow: HashMap<Word, Vec<(Word, Word)>>,
    /// Holders of the key hold these relations.
    pub(crate) implied: HashMap<Word, Vec<Word>>,
}

/// The model bound to one graph.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) model: Arc<Model>,
    rules: HashMap<(Word, Word), Rule>,
    consequences: HashMap<Word, Consequences>,
    computed: HashSet<Word>,
}

impl Bound {
    /// Adds the model's words to the graph and translates the model into their numbers.
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

    /// The rule of a relation; `None` when the model lacks it, so that it has no holder.
    pub(crate) fn rule(&self, kind: Word, relation: Word) -> Option<&Rule> {
        self.rules.get(&(kind, relation))
    }

    /// Whether any rule computes a relation from this one over a tuple that names its object.
    pub(crate) fn is_computed(&self, relation: Word) -> bool {
        self.computed.contains(&relation)
    }

    /// The consequences for objects of a type.
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
