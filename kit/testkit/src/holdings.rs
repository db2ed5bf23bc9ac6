//! The semantics of a model, spelled out: applies the rules to every object and relation until nothing changes. Slow
//! but plain, and written independently of authz's engines, whose tests compare against it; a [`World`](crate::World)
//! decides by it.

use std::collections::{BTreeMap, BTreeSet};

use contract::fragment::{Expression, Relations};

/// `(type, id)`.
pub type Object = (String, String);

/// One tuple.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple {
    /// The object of the relation.
    pub object: Object,
    /// The relation.
    pub relation: String,
    /// The subject that holds it.
    pub subject: Object,
    /// Empty for the subject itself; else a relation on it, whose holders are meant.
    pub subject_relation: String,
}

impl From<&contract::grants::Tuple> for Tuple {
    fn from(tuple: &contract::grants::Tuple) -> Self {
        Self {
            object: (tuple.object_type.clone(), tuple.object_id.clone()),
            relation: tuple.relation.clone(),
            subject: (tuple.subject_type.clone(), tuple.subject_id.clone()),
            subject_relation: tuple.subject_relation.clone(),
        }
    }
}

/// Every `(object, relation)` that the subject holds.
#[must_use]
pub fn holdings(
    model: &Relations,
    tuples: &BTreeSet<Tuple>,
    subject: &Object,
    subject_relation: &str,
) -> BTreeSet<(Object, String)> {
    let objects: BTreeSet<&Object> =
        tuples.iter().flat_map(|tuple| [&tuple.object, &tuple.subject]).chain([subject]).collect();
    let facts = Facts { model, tuples, subject, subject_relation };
    let mut held = BTreeSet::new();
    if !subject_relation.is_empty() && facts.relation(subject, subject_relation).is_some() {
        held.insert((subject.clone(), subject_relation.to_owned()));
    }
    loop {
        let before = held.len();
        for object in &objects {
            for (relation, expression) in model.get(&object.0).unwrap_or(&BTreeMap::new()) {
                if facts.follows(object, relation, expression, &held) {
                    held.insert(((*object).clone(), relation.clone()));
                }
            }
        }
        if held.len() == before {
            return held;
        }
    }
}

struct Facts<'a> {
    model: &'a Relations,
    tuples: &'a BTreeSet<Tuple>,
    subject: &'a Object,
    subject_relation: &'a str,
}

impl Facts<'_> {
    fn relation(&self, object: &Object, relation: &str) -> Option<&Expression> {
        self.model.get(&object.0)?.get(relation)
    }

    fn follows(
        &self,
        object: &Object,
        relation: &str,
        expression: &Expression,
        held: &BTreeSet<(Object, String)>,
    ) -> bool {
        let tuples = |relation: &str| {
            let relation = relation.to_owned();
            self.tuples.iter().filter(move |tuple| tuple.object == *object && tuple.relation == relation)
        };
        let holds = |object: &Object, relation: &str| held.contains(&(object.clone(), relation.to_owned()));
        match expression {
            Expression::This => tuples(relation).any(|tuple| {
                let named = tuple.subject == *self.subject && tuple.subject_relation == self.subject_relation;
                named
                    || (!tuple.subject_relation.is_empty() && holds(&tuple.subject, &tuple.subject_relation))
            }),
            Expression::Computed(other) => holds(object, other),
            Expression::TupleTo { tupleset, computed } => tuples(tupleset)
                .any(|tuple| tuple.subject_relation.is_empty() && holds(&tuple.subject, computed)),
            Expression::Union(children) => {
                children.iter().any(|child| self.follows(object, relation, child, held))
            }
        }
    }
}
