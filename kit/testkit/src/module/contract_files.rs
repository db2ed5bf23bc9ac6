//! Checks that the files of the module contract agree with each other and with the program's table of operations,
//! whatever the module does.

use std::collections::BTreeSet;

use contract::manifest::{self, LicenseClass};
use contract::{fragment, license};
use serde_json::{Value, json};
use service::{Bundle, Feature, Operation};

use crate::OpenApi;

/// Operations that are not rows of the table.
const PROBES: [&str; 2] = ["GET /health", "GET /ready"];

/// Runs all checks: the manifest names what the program serves; the document describes exactly the operations of the
/// table, each with its decision (`x-authz`), its `Idempotency-Key` and the modules that the manifest requires, and its
/// shared components equal those in [`contract::openapi::SHARED`]; the fragment declares exactly the decisions that are
/// asked; the license is the one that the manifest names; migrations are numbered without gaps.
///
/// `second` are decisions asked besides the operations' own; `later` are the keys of features that no operation asks
/// for yet.
///
/// # Panics
/// The files do not agree.
pub fn check(bundle: &Bundle, port: u16, table: &[Operation], second: &[Feature], later: &[&str]) {
    check_manifest(bundle, port);
    check_document(bundle, table);
    check_required_modules(bundle);
    check_shared_components(bundle);
    let otherwise = table.iter().filter_map(|operation| operation.otherwise);
    let second: Vec<Feature> = otherwise.chain(second.iter().copied()).collect();
    check_features(bundle, &own(table), &second, later);
    let versions: Vec<i64> = bundle.migrations.iter().map(|migration| migration.version).collect();
    assert!(versions.iter().copied().eq((1..).take(versions.len())), "not numbered from 1: {versions:?}");
}

#[expect(clippy::expect_used, reason = "a test with an unreadable manifest has failed")]
fn check_manifest(bundle: &Bundle, port: u16) {
    let manifest = manifest::parse(bundle.manifest).expect("the manifest is right");
    assert_eq!((manifest.key.as_str(), manifest.service.port), (bundle.key, port));
    assert_eq!(manifest.base_path(), format!("/api/{}", bundle.key));
    assert_eq!(manifest.license.class, LicenseClass::Open);
    assert_eq!(license::check(&manifest.license.spdx, bundle.license), None);
}

/// Checks the document against the table, one line per operation, so that a failure names the operation.
fn check_document(bundle: &Bundle, table: &[Operation]) {
    let document = OpenApi::parse(bundle.openapi);
    let mut expected: Vec<String> = table.iter().map(told).collect();
    let operations = document.operations();
    let mut documented: Vec<String> = operations
        .iter()
        .filter(|operation| !PROBES.contains(&operation.as_str()))
        .map(|name| documented(&document, name))
        .collect();
    expected.sort();
    documented.sort();
    assert_eq!(documented, expected, "openapi.json beside the table of operations");
}

/// Checks that every operation requires the module itself and its manifest's dependencies, and no other.
#[expect(clippy::expect_used, reason = "a test with an unreadable manifest has failed")]
fn check_required_modules(bundle: &Bundle) {
    let manifest = manifest::parse(bundle.manifest).expect("the manifest is right");
    let needed = manifest.dependencies.iter().map(|dependency| dependency.module_key.clone());
    let needed: BTreeSet<String> = needed.chain([bundle.key.to_owned()]).collect();
    let document = OpenApi::parse(bundle.openapi);
    for name in document.operations().iter().filter(|name| !PROBES.contains(&name.as_str())) {
        let described = document.described(name).get("x-required-modules").and_then(Value::as_array);
        let keys = described.into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned);
        assert_eq!(keys.collect::<BTreeSet<_>>(), needed, "x-required-modules of {name}");
    }
}

#[expect(clippy::expect_used, reason = "a test with an unreadable document has failed")]
fn check_shared_components(bundle: &Bundle) {
    let document: Value = serde_json::from_str(bundle.openapi).expect("JSON");
    let shared: Value = serde_json::from_str(contract::openapi::SHARED).expect("JSON");
    let sections = shared.get("components").and_then(Value::as_object).expect("the shared components");
    let of = |section: &str, name: &str| document.get("components")?.get(section)?.get(name);
    let mut held = 0;
    for (section, components) in sections {
        for (name, component) in components.as_object().into_iter().flatten() {
            if let Some(own) = of(section, name) {
                assert_eq!(own, component, "{section}/{name}: `cargo xtask openapi` renews it");
                held += 1;
            }
        }
    }
    assert!(held > 0, "the document has none of the components that all modules share");
}

fn told(operation: &Operation) -> String {
    let path = format!("{} /v1/companies/{{companyId}}{}", operation.method.word(), operation.path);
    let authz = authz(operation);
    format!("{path} {} idempotent={} {authz}", operation.id, operation.idempotent)
}

fn documented(document: &OpenApi, name: &str) -> String {
    let described = document.described(name);
    let id = described.get("operationId").and_then(Value::as_str).unwrap_or_default();
    let idempotent = document.parameters(name).iter().any(|parameter| parameter == "Idempotency-Key");
    let authz = described.get("x-authz").cloned().unwrap_or_default();
    format!("{name} {id} idempotent={idempotent} {authz}")
}

/// The `x-authz` extension of an operation.
#[must_use]
pub fn authz(operation: &Operation) -> Value {
    let decision = |feature: &Feature| {
        json!({ "feature": feature.key, "object": feature.object, "relation": feature.relation,
            "operator": feature.operator })
    };
    let mut authz = decision(&operation.feature);
    if let (Some(otherwise), Some(members)) = (&operation.otherwise, authz.as_object_mut()) {
        members.insert("else".to_owned(), decision(otherwise));
    }
    if let (Some(view), Some(members)) = (&operation.view, authz.as_object_mut()) {
        let mut instead = decision(&view.feature);
        if let Some(members) = instead.as_object_mut() {
            members.insert("parameter".to_owned(), json!(view.parameter));
            members.insert("words".to_owned(), json!(view.words));
        }
        members.insert("view".to_owned(), instead);
    }
    authz
}

/// The decisions that operations ask for themselves.
fn own(table: &[Operation]) -> Vec<Feature> {
    let views = table.iter().filter_map(|operation| operation.view.map(|view| view.feature));
    table.iter().map(|operation| operation.feature).chain(views).collect()
}

#[expect(clippy::expect_used, reason = "a test with an unreadable fragment has failed")]
fn check_features(bundle: &Bundle, own: &[Feature], second: &[Feature], later: &[&str]) {
    fragment::parse(bundle.fragment, bundle.key).expect("the fragment is right");
    let fragment: Value = serde_json::from_str(bundle.fragment).expect("JSON");
    let declared = fragment.get("features").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |entry: &Value, pointer: &str| entry.pointer(pointer).cloned().unwrap_or_default();
    let entry = |key: &str| declared.iter().find(|entry| text(entry, "/featureKey") == key);
    for feature in own.iter().chain(second) {
        let object = entry(feature.key).map(|entry| text(entry, "/accessRulePayload/objectType"));
        assert_eq!(object, Some(feature.object.into()), "objectType of {}", feature.key);
    }
    // A module always asks for a relation in the company in the path.
    for entry in &declared {
        let told = ["/scopeType", "/requiresCompany", "/accessRuleKind"].map(|pointer| text(entry, pointer));
        let asked = [json!("company"), json!(true), json!("relation")];
        assert_eq!(told, asked, "{}", text(entry, "/featureKey"));
    }
    // A second decision may ask for another relation than the declared one: a higher tier.
    for feature in own {
        let relation = entry(feature.key).map(|entry| text(entry, "/accessRulePayload/relation"));
        assert_eq!(relation, Some(feature.relation.into()), "relation of {}", feature.key);
    }
    let asked = |key: &Value| own.iter().chain(second).any(|feature| key == feature.key);
    let keys = declared.iter().map(|entry| text(entry, "/featureKey"));
    let unasked: BTreeSet<String> = keys.filter(|key| !asked(key)).map(|key| key.to_string()).collect();
    let later: BTreeSet<String> = later.iter().map(|key| json!(key).to_string()).collect();
    assert_eq!(unasked, later, "features that nothing asks for");
}
