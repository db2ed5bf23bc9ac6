//! The features, scopes and policies of a summary: the fragments' entries, parsed leniently because registry has
//! already checked them. Pure.

use contract::decision::ObjectRef;
use contract::fragment::access_feature;
use contract::id::CompanyId;
use serde::Serialize;
use serde_json::Value;

use super::store::{Held, Module};
use crate::engine::facts::Ask;

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
    pub(super) module: String,
    pub(super) key: String,
    pub(super) rule: Rule,
}

impl Feature {
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

/// All declared features, and the access feature of each module.
pub(super) fn features(modules: &[Module]) -> Vec<Feature> {
    let of_module = |module: &Module| -> Vec<Feature> {
        let feature = |key: &String, rule| Feature { module: module.key.clone(), key: key.clone(), rule };
        let declared = module.features.iter().map(|key| feature(key, rule(&module.fragment, key)));
        declared.chain([feature(&access_feature(&module.key), Rule::Member)]).collect()
    };
    modules.iter().flat_map(of_module).collect()
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
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RowScope {
    module_key: String,
    entity_type: Value,
    rules: Value,
}

/// One entry of `fieldPolicies`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FieldPolicy {
    module_key: String,
    field_set: Value,
    policy: Value,
}

/// The row scopes of the fragments.
pub(super) fn row_scopes(modules: &[Module]) -> Vec<RowScope> {
    let of_module = |module: &Module| -> Vec<RowScope> {
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
pub(super) fn field_policies(modules: &[Module]) -> Vec<FieldPolicy> {
    let of_module = |module: &Module| -> Vec<FieldPolicy> {
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

/// Groups tuples, which are ordered by object, into one entry per object.
pub(super) fn object_access(tuples: Vec<Held>) -> Vec<ObjectAccess> {
    let mut objects: Vec<ObjectAccess> = Vec::new();
    for Held { object_type, object_id, relation } in tuples {
        match objects.last_mut() {
            Some(last) if last.object_type == object_type && last.object_id == object_id => {
                last.relations.push(relation);
            }
            _ => objects.push(ObjectAccess { object_type, object_id, relations: vec![relation] }),
        }
    }
    objects
}
