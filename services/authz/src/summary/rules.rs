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
    pub(super) row_scopes: Arc<Vec<RowScope>>,
    pub(super) field_policies: Arc<Vec<FieldPolicy>>,
    /// The relations that features require, each once.
    required: Vec<Required>,
}

impl Catalog {
    /// Collects the declarations.
    pub(super) fn of(enabled: &[Enabled]) -> Self {
        let mut required = Vec::new();
        let mut features: Vec<Feature> =
            enabled.iter().flat_map(|module| features(module, &mut required)).collect();
        features.sort_by(|one, other| one.key.cmp(&other.key));
        let (row_scopes, field_policies) = (Arc::new(row_scopes(enabled)), Arc::new(field_policies(enabled)));
        Self { features, row_scopes, field_policies, required }
    }

    /// The relations that features require in one company, in the order of [`Rule::Holder`].
    pub(super) fn asks(&self, company: CompanyId) -> impl Iterator<Item = Ask> {
        self.required.iter().map(move |Required { module, relation }| match module {
            None => Ask::company_role(company, relation),
            Some(module) => Ask::new(ObjectRef::company_module(company, module), relation),
        })
    }
}

/// A relation on a module in a company or, without a module, on the company itself.
#[derive(Debug, PartialEq, Eq)]
struct Required {
    module: Option<String>,
    relation: String,
}

/// Who has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every member of the company. Also the rule of a feature on the module's objects: `can` decides which of them.
    Member,
    /// Holders of the platform role.
    Superadmin,
    /// Holders of one of the required relations, by its index.
    Holder(usize),
}

/// A feature of one module.
#[derive(Debug)]
pub(super) struct Feature {
    pub(super) key: Arc<str>,
    pub(super) rule: Rule,
}

/// The features that a module declares, and its access feature. Adds the relations that they require.
fn features(module: &Enabled, required: &mut Vec<Required>) -> Vec<Feature> {
    let mut features = Vec::with_capacity(module.features.len() + 1);
    for key in &module.features {
        features.push(Feature { key: key.as_str().into(), rule: rule(module, key, required) });
    }
    features.push(Feature { key: access_feature(&module.key).into(), rule: Rule::Member });
    features
}

/// The rule that the fragment declares for a feature. Adds the relation that it requires.
fn rule(Enabled { key: module, fragment, .. }: &Enabled, key: &str, required: &mut Vec<Required>) -> Rule {
    let declared = entries(fragment, "features").find(|entry| entry["featureKey"] == key);
    let Some(declared) = declared else { return Rule::Member };
    let payload = |name: &str| declared.get("accessRulePayload")?.get(name)?.as_str();
    match (declared["accessRuleKind"].as_str(), payload("objectType"), payload("relation")) {
        (Some("platform_role"), ..) | (_, Some("system"), _) => Rule::Superadmin,
        (_, Some(kind @ ("company_module" | "company")), Some(relation)) => {
            let module = (kind == "company_module").then(|| module.clone());
            Rule::Holder(index_of(required, Required { module, relation: relation.to_owned() }))
        }
        _ => Rule::Member,
    }
}

/// The index of an element, which is added if it is new.
fn index_of(required: &mut Vec<Required>, one: Required) -> usize {
    required.iter().position(|known| *known == one).unwrap_or_else(|| {
        required.push(one);
        required.len() - 1
    })
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
