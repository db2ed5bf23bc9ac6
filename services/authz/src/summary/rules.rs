//! The features, scopes and policies of a summary: the fragments' entries, parsed leniently because registry has
//! already checked them. Pure.

use std::sync::Arc;

use contract::decision::ObjectRef;
use contract::fragment::access_feature;
use contract::id::CompanyId;
use serde::Serialize;
use serde_json::Value;

use crate::engine::facts::Ask;
use crate::engine::{Enabled, OwnTuple};

/// What the enabled modules and apps declare.
#[derive(Debug)]
pub(super) struct Catalog {
    /// In ascending order of their keys.
    pub(super) features: Vec<Feature>,
    pub(super) row_scopes: Vec<RowScope>,
    pub(super) field_policies: Vec<FieldPolicy>,
    /// One feature for each relation that some feature requires.
    asked: Vec<Feature>,
}

impl Catalog {
    /// Collects the declarations.
    pub(super) fn of(enabled: &[Enabled]) -> Self {
        let features = features(enabled);
        let mut asked: Vec<Feature> = Vec::new();
        for feature in features.iter().filter(|feature| matches!(feature.rule, Rule::Relation { .. })) {
            if !asked.iter().any(|known| known.asks_as(feature)) {
                asked.push(feature.clone());
            }
        }
        Self { features, row_scopes: row_scopes(enabled), field_policies: field_policies(enabled), asked }
    }

    /// The relations that features require in one company, each once.
    pub(super) fn asks(&self, company: CompanyId) -> impl Iterator<Item = Ask> {
        self.asked.iter().filter_map(move |feature| feature.ask(company))
    }
}

/// Who has a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every member of the company. Also the rule of a feature on the module's objects: `can` decides which of them.
    Member,
    /// Holders of the platform role.
    Superadmin,
    /// Holders of a relation on the module in the company or, if `on_company`, on the company itself.
    Relation { on_company: bool, relation: String },
}

/// A feature of one module.
#[derive(Clone, Debug)]
pub(super) struct Feature {
    module: String,
    pub(super) key: Arc<str>,
    pub(super) rule: Rule,
}

impl Feature {
    /// Whether both require the same relation on the same object.
    fn asks_as(&self, other: &Self) -> bool {
        let is_of_module = matches!(self.rule, Rule::Relation { on_company: false, .. });
        self.rule == other.rule && (!is_of_module || self.module == other.module)
    }

    /// The relation that the rule requires in one company.
    pub(super) fn ask(&self, company: CompanyId) -> Option<Ask> {
        match &self.rule {
            Rule::Member | Rule::Superadmin => None,
            Rule::Relation { on_company: true, relation } => Some(Ask::company_role(company, relation)),
            Rule::Relation { on_company: false, relation } => {
                Some(Ask::new(ObjectRef::company_module(company, &self.module), relation))
            }
        }
    }
}

/// All declared features, and the access feature of each module, in ascending order of their keys.
fn features(modules: &[Enabled]) -> Vec<Feature> {
    let of_module = |module: &Enabled| -> Vec<Feature> {
        let feature = |key: &str, rule| Feature { module: module.key.clone(), key: key.into(), rule };
        let declared = module.features.iter().map(|key| feature(key, rule(&module.fragment, key)));
        declared.chain([feature(&access_feature(&module.key), Rule::Member)]).collect()
    };
    let mut features: Vec<Feature> = modules.iter().flat_map(of_module).collect();
    features.sort_by(|one, other| one.key.cmp(&other.key));
    features
}

fn rule(fragment: &Value, key: &str) -> Rule {
    let declared = entries(fragment, "features").find(|entry| entry["featureKey"] == key);
    let Some(declared) = declared else { return Rule::Member };
    let payload = |name: &str| declared.get("accessRulePayload")?.get(name)?.as_str();
    match (declared["accessRuleKind"].as_str(), payload("objectType"), payload("relation")) {
        (Some("platform_role"), ..) | (_, Some("system"), _) => Rule::Superadmin,
        (_, Some(kind @ ("company_module" | "company")), Some(relation)) => {
            Rule::Relation { on_company: kind == "company", relation: relation.to_owned() }
        }
        _ => Rule::Member,
    }
}

fn entries<'a>(fragment: &'a Value, section: &str) -> impl Iterator<Item = &'a Value> {
    fragment.get(section).and_then(Value::as_array).into_iter().flatten()
}

/// One entry of `rowScopes`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RowScope {
    module_key: String,
    entity_type: Value,
    rules: Value,
}

/// One entry of `fieldPolicies`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FieldPolicy {
    module_key: String,
    field_set: Value,
    policy: Value,
}

/// The row scopes of the fragments.
fn row_scopes(modules: &[Enabled]) -> Vec<RowScope> {
    let of_module = |module: &Enabled| -> Vec<RowScope> {
        let scope = |entry: &Value| RowScope {
            module_key: module.key.clone(),
            entity_type: entry["entityType"].clone(),
            rules: entry["rules"].clone(),
        };
        entries(&module.fragment, "rowScopes").map(scope).collect()
    };
    modules.iter().flat_map(of_module).collect()
}

/// The field sets of the fragments; an entry without `fieldSet` is the field set itself.
fn field_policies(modules: &[Enabled]) -> Vec<FieldPolicy> {
    let of_module = |module: &Enabled| -> Vec<FieldPolicy> {
        let policy = |entry: &Value| FieldPolicy {
            module_key: module.key.clone(),
            field_set: entry.get("fieldSet").unwrap_or(entry).clone(),
            policy: entry.get("policy").cloned().unwrap_or_default(),
        };
        entries(&module.fragment, "fieldSets").map(policy).collect()
    };
    modules.iter().flat_map(of_module).collect()
}

/// One entry of `objectAccess`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectAccess {
    object_type: String,
    object_id: String,
    relations: Vec<String>,
}

/// Groups tuples into one entry per object: modules first, then by type and id.
pub(super) fn object_access(mut tuples: Vec<OwnTuple>) -> Vec<ObjectAccess> {
    let is_object = |tuple: &OwnTuple| tuple.object.kind != "company_module";
    tuples.sort_unstable_by(|one, other| {
        let key = |tuple| (is_object(tuple), &tuple.object.kind, &tuple.object.id, &tuple.relation);
        key(one).cmp(&key(other))
    });
    let mut objects: Vec<ObjectAccess> = Vec::new();
    for OwnTuple { object: ObjectRef { kind, id }, relation, .. } in tuples {
        match objects.last_mut() {
            Some(last) if last.object_type == kind && last.object_id == id => last.relations.push(relation),
            _ => objects.push(ObjectAccess { object_type: kind, object_id: id, relations: vec![relation] }),
        }
    }
    objects
}
