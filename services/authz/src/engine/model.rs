//! The compiled effective model: for every relation of every type, which tuples grant it (`direct`), which relations of
//! the same object imply it (`implied`, including itself) and which tuples lead to other objects (`follow`). Unions and
//! `computedUserset` are flattened here once, so that an evaluator only searches a graph. Cycles of `computedUserset`
//! end because each relation is visited once. Pure; reads no database.

use std::collections::{BTreeMap, BTreeSet};

use contract::fragment::{Expression, Relations};
use serde::Serialize;
use serde_json::Value;

/// The ways to hold one relation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Rules {
    pub(super) direct: BTreeSet<String>,
    pub(super) follow: BTreeSet<Follow>,
    #[serde(skip)]
    pub(super) implied: BTreeSet<String>,
}

/// Gives the relation to holders of `computed` on every object that a tuple of `tupleset` names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Follow {
    pub(super) tupleset: String,
    pub(super) computed: String,
}

/// Whether the model has a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The relation exists.
    Yes,
    /// The type does not exist.
    NoType,
    /// The type has no such relation.
    NoRelation,
}

/// The state of one database's catalog that a model was compiled from. The revision alone does not identify it: a
/// restored database counts on from an earlier revision and reaches the same number with different content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    /// The revision and the number of the transaction that wrote it.
    catalog: String,
    /// Start time of the server, as bits; only compared.
    started: u64,
}

impl Edition {
    /// The edition that a statement reported; `None` when there is no catalog.
    #[must_use]
    pub fn told(catalog: Option<String>, started: f64) -> Option<Self> {
        catalog.map(|catalog| Self { catalog, started: started.to_bits() })
    }
}

/// An enabled module or app and what it declares.
#[derive(Clone, Debug)]
pub struct Enabled {
    /// Its key.
    pub key: String,
    /// Its feature keys.
    pub features: BTreeSet<String>,
    /// Its fragment.
    pub fragment: Value,
}

/// The compiled model of one revision of the catalog.
#[derive(Clone, Debug)]
pub struct Model {
    revision: i64,
    edition: Edition,
    owners: BTreeMap<String, String>,
    managers: BTreeMap<String, String>,
    /// The feature keys that each registered app declares.
    apps: BTreeMap<String, BTreeSet<String>>,
    /// By key.
    enabled: Vec<Enabled>,
    pub(super) rules: BTreeMap<String, BTreeMap<String, Rules>>,
    rules_json: String,
    implied_json: String,
    turned_json: String,
}

/// An object type was declared twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("object type \"{0}\" is declared twice")]
pub struct Redeclared(pub String);

impl Model {
    /// Compiles the base types and the relations of every module and app, keyed by their owner.
    ///
    /// # Errors
    /// A type is declared twice.
    pub fn compile(
        revision: i64,
        base: &Relations,
        parts: &BTreeMap<String, Relations>,
    ) -> Result<Self, Redeclared> {
        let mut owners = BTreeMap::new();
        let mut rules = compile_types(base);
        for (key, relations) in parts {
            for (name, of_type) in compile_types(relations) {
                owners.insert(name.clone(), key.clone());
                if rules.insert(name.clone(), of_type).is_some() {
                    return Err(Redeclared(name));
                }
            }
        }
        let (rules_json, implied_json) = (json_of_rules(&rules), json_of_implied(&rules));
        let turned_json = json_of_turned(&rules);
        let edition = Edition::default();
        let (managers, apps, enabled) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Self {
            revision,
            edition,
            owners,
            managers,
            apps,
            enabled,
            rules,
            rules_json,
            implied_json,
            turned_json,
        })
    }

    /// The catalog revision that the model was compiled from.
    #[must_use]
    pub const fn revision(&self) -> i64 {
        self.revision
    }

    /// Sets the edition of the model.
    #[must_use]
    pub fn of(mut self, edition: Edition) -> Self {
        self.edition = edition;
        self
    }

    /// Sets the feature keys that each registered app declares.
    #[must_use]
    pub fn with_apps(mut self, apps: BTreeMap<String, BTreeSet<String>>) -> Self {
        self.apps = apps;
        self
    }

    /// Sets the enabled modules and apps.
    #[must_use]
    pub fn with_enabled(mut self, mut enabled: Vec<Enabled>) -> Self {
        enabled.sort_by(|one, other| one.key.cmp(&other.key));
        self.enabled = enabled;
        self
    }

    /// The enabled modules and apps, ordered by key.
    #[must_use]
    pub fn enabled(&self) -> &[Enabled] {
        &self.enabled
    }

    /// Whether a module or app is enabled.
    #[must_use]
    pub fn is_enabled(&self, key: &str) -> bool {
        self.enabled.binary_search_by(|enabled| enabled.key.as_str().cmp(key)).is_ok()
    }

    /// Whether a question names a feature unknown to its app: neither declared by the app nor its `<key>.access`. The
    /// app is the deciding one (`deciding`), or else the one whose key is the feature's first part. Module features are
    /// not checked.
    #[must_use]
    pub fn is_unknown_feature(&self, deciding: Option<&str>, feature: &str) -> bool {
        let named = deciding.or_else(|| feature.split_once('.').map(|(key, _)| key));
        let Some((key, features)) = named.and_then(|key| self.apps.get_key_value(key)) else { return false };
        let is_access = feature.strip_prefix(key.as_str()) == Some(".access");
        !is_access && !features.contains(feature)
    }

    /// Sets, for each type, the relation whose holders manage its objects.
    #[must_use]
    pub fn managed_by(mut self, managers: BTreeMap<String, String>) -> Self {
        self.managers = managers;
        self
    }

    /// The relation whose holders manage objects of a type; `None` when the fragment names none, as for apps.
    #[must_use]
    pub fn manager_relation(&self, object_type: &str) -> Option<&str> {
        self.managers.get(object_type).map(String::as_str)
    }

    /// The catalog edition that the model was compiled from.
    #[must_use]
    pub const fn edition(&self) -> &Edition {
        &self.edition
    }

    /// The module or app that declared a type; `None` for base types and unknown ones.
    #[must_use]
    pub fn owner(&self, object_type: &str) -> Option<&str> {
        self.owners.get(object_type).map(String::as_str)
    }

    /// Whether a relation is part of the model.
    #[must_use]
    pub fn knows(&self, object_type: &str, relation: &str) -> Known {
        match self.rules.get(object_type) {
            None => Known::NoType,
            Some(of_type) if of_type.contains_key(relation) => Known::Yes,
            Some(_) => Known::NoRelation,
        }
    }

    /// All types, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }

    /// The relations of a type, sorted by name; empty for an unknown type.
    #[must_use]
    pub fn relations(&self, object_type: &str) -> Vec<&str> {
        let of_type = self.rules.get(object_type);
        let mut names: Vec<&str> =
            of_type.into_iter().flat_map(|rules| rules.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names
    }

    /// Whether a tuple of this relation gives the relation to its subject.
    #[must_use]
    pub fn is_direct(&self, object_type: &str, relation: &str) -> bool {
        let rules = self.rules.get(object_type).and_then(|of_type| of_type.get(relation));
        rules.is_some_and(|rules| rules.direct.contains(relation))
    }

    /// Whether tuples of this relation are followed to the objects they name.
    #[must_use]
    pub fn is_tupleset(&self, object_type: &str, relation: &str) -> bool {
        let follows = |rules: &Rules| rules.follow.iter().any(|follow| follow.tupleset == relation);
        self.rules.get(object_type).is_some_and(|of_type| of_type.values().any(follows))
    }

    /// `{type: {relation: {direct: [relation], follow: [{tupleset, computed}]}}}`, for the SQL engine.
    #[must_use]
    pub fn rules_json(&self) -> &str {
        &self.rules_json
    }

    /// `{type: {relation: [relations that imply it]}}`, for the SQL engine's userset subjects.
    #[must_use]
    pub fn implied_json(&self) -> &str {
        &self.implied_json
    }

    /// `{type: {direct: {tuple relation: [relation]}, follow: {tupleset: [{computed, gives}]}, implied: {relation:
    /// [relation]}}}`: the relations that follow from a tuple or a relation, for the SQL engine's lists.
    #[must_use]
    pub fn turned_json(&self) -> &str {
        &self.turned_json
    }
}

fn compile_types(relations: &Relations) -> BTreeMap<String, BTreeMap<String, Rules>> {
    let compile = |of_type: &BTreeMap<String, Expression>| {
        of_type.keys().map(|relation| (relation.clone(), compile_relation(of_type, relation))).collect()
    };
    relations.iter().map(|(name, of_type)| (name.clone(), compile(of_type))).collect()
}

/// Walks `computedUserset` and `union` from one relation; every relation it reaches implies the first.
fn compile_relation(of_type: &BTreeMap<String, Expression>, relation: &str) -> Rules {
    let mut rules = Rules::default();
    let mut pending = vec![relation];
    while let Some(relation) = pending.pop() {
        let Some(expression) = of_type.get(relation) else { continue };
        if rules.implied.insert(relation.to_owned()) {
            rules.add(relation, expression, &mut pending);
        }
    }
    rules
}

impl Rules {
    fn add<'a>(&mut self, relation: &str, expression: &'a Expression, pending: &mut Vec<&'a str>) {
        match expression {
            Expression::This => {
                self.direct.insert(relation.to_owned());
            }
            Expression::Computed(other) => pending.push(other),
            Expression::TupleTo { tupleset, computed } => {
                self.follow.insert(Follow { tupleset: tupleset.clone(), computed: computed.clone() });
            }
            Expression::Union(children) => {
                for child in children {
                    self.add(relation, child, pending);
                }
            }
        }
    }
}

fn json_of_rules(rules: &BTreeMap<String, BTreeMap<String, Rules>>) -> String {
    serde_json::json!(rules).to_string()
}

fn json_of_implied(rules: &BTreeMap<String, BTreeMap<String, Rules>>) -> String {
    let implied: BTreeMap<_, BTreeMap<_, _>> = rules
        .iter()
        .map(|(name, of_type)| {
            (name, of_type.iter().map(|(relation, rules)| (relation, &rules.implied)).collect())
        })
        .collect();
    serde_json::json!(implied).to_string()
}

/// The relations that follow from each tuple or relation of one type.
#[derive(Default, Serialize)]
struct Turned<'a> {
    direct: BTreeMap<&'a str, Vec<&'a str>>,
    follow: BTreeMap<&'a str, Vec<Gift<'a>>>,
    implied: BTreeMap<&'a str, Vec<&'a str>>,
}

#[derive(Serialize)]
struct Gift<'a> {
    computed: &'a str,
    gives: &'a str,
}

fn json_of_turned(rules: &BTreeMap<String, BTreeMap<String, Rules>>) -> String {
    let turn = |of_type: &BTreeMap<String, Rules>| serde_json::json!(turned(of_type));
    let all: BTreeMap<_, _> = rules.iter().map(|(name, of_type)| (name, turn(of_type))).collect();
    serde_json::json!(all).to_string()
}

fn turned(of_type: &BTreeMap<String, Rules>) -> Turned<'_> {
    let mut turned = Turned::default();
    for (relation, rules) in of_type {
        for direct in &rules.direct {
            turned.direct.entry(direct).or_default().push(relation);
        }
        for Follow { tupleset, computed } in &rules.follow {
            turned.follow.entry(tupleset).or_default().push(Gift { computed, gives: relation });
        }
        for implied in &rules.implied {
            turned.implied.entry(implied).or_default().push(relation);
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use contract::fragment::base_model;

    use super::*;

    #[test]
    fn tiers_are_flattened_to_the_tuples_they_rest_on() {
        let model = Model::compile(1, &base_model(), &BTreeMap::new()).expect("base types are distinct");
        let member = &model.rules["company_module"]["member"];
        assert_eq!(Vec::from_iter(&member.direct), ["admin", "editor", "member"]);
        let follow: Vec<_> =
            member.follow.iter().map(|step| (step.tupleset.as_str(), step.computed.as_str())).collect();
        assert_eq!(follow, [("company", "member"), ("system", "superadmin")]);
        assert_eq!(model.knows("company_module", "owner"), Known::NoRelation);
        assert_eq!(model.knows("ticket", "owner"), Known::NoType);
    }

    #[test]
    fn cycles_end_and_a_relation_without_entry_has_no_direct_tuples() {
        let cycle = BTreeMap::from([
            ("a".to_owned(), Expression::Computed("b".to_owned())),
            ("b".to_owned(), Expression::Union(vec![Expression::Computed("a".to_owned())])),
        ]);
        let base = Relations::from([("thing".to_owned(), cycle)]);
        let model = Model::compile(1, &base, &BTreeMap::new()).expect("one type");
        assert!(model.rules["thing"]["a"].direct.is_empty());
        assert_eq!(Vec::from_iter(&model.rules["thing"]["a"].implied), ["a", "b"]);
    }

    #[test]
    fn a_type_has_one_owner() {
        let ticket = || Relations::from([("ticket".to_owned(), BTreeMap::new())]);
        let parts = BTreeMap::from([("one".to_owned(), ticket()), ("two".to_owned(), ticket())]);
        let refused = Model::compile(1, &base_model(), &parts).map(|_| ());
        assert_eq!(refused, Err(Redeclared("ticket".to_owned())));
    }
}
