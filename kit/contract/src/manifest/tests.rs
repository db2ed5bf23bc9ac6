//! Each rule of the manifest's table: what it accepts and what it refuses, by path and rule.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

pub(crate) fn sample() -> Value {
    json!({
        "contractVersion": 1, "moduleKey": "crm", "displayName": "CRM", "version": "1.2.3", "scopeType": "company",
        "mandatory": false,
        "service": {"basePath": "/api/crm", "port": 8200, "healthPath": "/health", "image": null},
        "dependencies": [{"moduleKey": "docs", "versionRange": "^0.1", "required": true}],
        "org": {"requiredOrgUnitTypes": ["company"], "usesMembers": true, "usesPositions": false},
        "data": {"postgresSchema": "crm", "migrationsPath": "migrations"},
        "license": {"class": "open", "spdx": "MIT", "entitlementRequired": false},
        "events": null
    })
}

/// The sample with the value at `pointer` replaced (or added).
pub(crate) fn with(mut sample: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = sample.pointer_mut(parent).expect("the parent is there");
    if let Value::Array(items) = parent {
        items[name.parse::<usize>().expect("an index")] = value;
    } else {
        parent[name] = value;
    }
    sample
}

pub(crate) fn without(mut sample: Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = sample.pointer_mut(parent).and_then(Value::as_object_mut).expect("the parent is there");
    parent.remove(name).expect("the member is there");
    sample
}

pub(crate) fn named(problems: &[FieldProblem]) -> Vec<(&str, &str)> {
    problems.iter().map(|problem| (problem.path.as_str(), problem.rule.as_ref())).collect()
}

fn accepts(pointer: &str, value: Value) {
    let file = with(sample(), pointer, value);
    parse(&file.to_string()).unwrap_or_else(|problems| panic!("{pointer}: {problems:?}"));
}

fn refuses(pointer: &str, value: Value, path: &str, rule: &str) {
    let file = with(sample(), pointer, value);
    let problems = parse(&file.to_string()).expect_err(pointer);
    assert_eq!(named(&problems), [(path, rule)], "{pointer}");
}

#[test]
fn the_sample_is_read_whole() {
    let manifest = parse(&sample().to_string()).expect("accepted");
    assert_eq!(manifest.key, "crm");
    assert_eq!(manifest.base_path(), "/api/crm");
    assert_eq!(manifest.service, Service { port: 8200, health_path: "/health".to_owned() });
    assert_eq!(manifest.dependencies.len(), 1);
    assert_eq!(manifest.license.class, LicenseClass::Open);
}

#[test]
fn contract_version_is_one() {
    accepts("/contractVersion", json!(1));
    for bad in [json!(2), json!("1"), json!(1.5), Value::Null] {
        refuses("/contractVersion", bad, "contractVersion", "contract_version");
    }
}

#[test]
fn the_key_has_its_pattern_and_decides_path_and_schema() {
    for good in ["crm", "a1", "a_b", &"a".repeat(32)] {
        assert!(is_key(good), "{good}");
    }
    for bad in ["", "a", "A1", "1a", "_ab", "a-b", "a.b", "ä1", &"a".repeat(33)] {
        assert!(!is_key(bad), "{bad}");
        refuses("/moduleKey", json!(bad), "moduleKey", "pattern");
    }
    refuses("/service/basePath", json!("/api/crm/"), "service.basePath", "fixed");
    refuses("/data/postgresSchema", json!("public"), "data.postgresSchema", "fixed");
    refuses("/data/migrationsPath", json!("sql"), "data.migrationsPath", "fixed");
}

#[test]
fn names_versions_and_words() {
    accepts("/displayName", json!("Kundenpflege"));
    refuses("/displayName", json!(" "), "displayName", "label");
    refuses("/displayName", json!(7), "displayName", "type");
    accepts("/version", json!("1.0.0-rc.1+build"));
    refuses("/version", json!("1.0"), "version", "semver");
    accepts("/scopeType", json!("global"));
    refuses("/scopeType", json!("team"), "scopeType", "enum");
    accepts("/mandatory", json!(true));
    refuses("/mandatory", json!("yes"), "mandatory", "type");
}

#[test]
fn the_service_has_a_port_and_an_absolute_health_path() {
    for good in [1, 65_535] {
        accepts("/service/port", json!(good));
    }
    for bad in [0, 65_536, -1] {
        refuses("/service/port", json!(bad), "service.port", "range");
    }
    refuses("/service/port", json!("8200"), "service.port", "type");
    accepts("/service/healthPath", json!("/internal/health"));
    for bad in ["health", "", "//host/health", "/a b", "/a?b", "/a#b"] {
        refuses("/service/healthPath", json!(bad), "service.healthPath", "absolute_path");
    }
    refuses("/service/image", json!("crm:1"), "service.image", "reserved");
}

#[test]
fn dependencies_are_required_distinct_and_in_a_range() {
    accepts("/dependencies", json!([]));
    accepts("/dependencies/0/versionRange", json!(">=0.1 <2"));
    refuses(
        "/dependencies/0/versionRange",
        json!("^1 || ^2"),
        "dependencies[0].versionRange",
        "version_range",
    );
    refuses("/dependencies/0/required", json!(false), "dependencies[0].required", "required_dependency");
    refuses("/dependencies/0/moduleKey", json!("Docs"), "dependencies[0].moduleKey", "pattern");
    refuses("/dependencies/0/moduleKey", json!("crm"), "dependencies[0].moduleKey", "cycle");
    let one = json!({"moduleKey": "docs", "versionRange": "*", "required": true});
    refuses("/dependencies", json!([one, one]), "dependencies[1].moduleKey", "unique");
}

#[test]
fn organization_needs_are_declared() {
    accepts("/org/requiredOrgUnitTypes", json!(["company", "business_unit"]));
    refuses("/org/requiredOrgUnitTypes", json!(["Company"]), "org.requiredOrgUnitTypes[0]", "pattern");
    refuses("/org/requiredOrgUnitTypes", json!("company"), "org.requiredOrgUnitTypes", "type");
    refuses("/org/usesMembers", json!(1), "org.usesMembers", "type");
    refuses("/org/usesPositions", Value::Null, "org.usesPositions", "type");
}

#[test]
fn a_license_fits_its_class() {
    accepts("/license", json!({"class": "foundation", "spdx": "Apache-2.0", "entitlementRequired": true}));
    accepts("/license/spdx", json!("Apache-2.0"));
    refuses("/license/class", json!("foundation"), "license.spdx", "license");
    refuses("/license/spdx", json!("GPL-3.0"), "license.spdx", "license");
    refuses("/license/class", json!("closed"), "license.class", "enum");
    refuses("/license/entitlementRequired", json!("no"), "license.entitlementRequired", "type");
}

#[test]
fn events_are_reserved() {
    refuses("/events", json!([]), "events", "reserved");
}

#[test]
fn comments_pass_at_every_level_and_unknown_keys_do_not() {
    for at in
        ["/_note", "/service/_note", "/dependencies/0/_note", "/org/_note", "/data/_note", "/license/_note"]
    {
        accepts(at, json!({"anything": [1]}));
    }
    let unknown = [
        ("/note", "note"),
        ("/service/note", "service.note"),
        ("/dependencies/0/note", "dependencies[0].note"),
        ("/org/note", "org.note"),
        ("/data/note", "data.note"),
        ("/license/note", "license.note"),
    ];
    for (pointer, path) in unknown {
        refuses(pointer, json!(1), path, "unknown_key");
    }
}

#[test]
fn every_key_is_required() {
    let keys = [
        ("/contractVersion", "contractVersion"),
        ("/moduleKey", "moduleKey"),
        ("/displayName", "displayName"),
        ("/version", "version"),
        ("/scopeType", "scopeType"),
        ("/mandatory", "mandatory"),
        ("/service", "service"),
        ("/service/basePath", "service.basePath"),
        ("/service/port", "service.port"),
        ("/service/healthPath", "service.healthPath"),
        ("/service/image", "service.image"),
        ("/dependencies", "dependencies"),
        ("/dependencies/0/moduleKey", "dependencies[0].moduleKey"),
        ("/dependencies/0/versionRange", "dependencies[0].versionRange"),
        ("/dependencies/0/required", "dependencies[0].required"),
        ("/org", "org"),
        ("/org/requiredOrgUnitTypes", "org.requiredOrgUnitTypes"),
        ("/org/usesMembers", "org.usesMembers"),
        ("/org/usesPositions", "org.usesPositions"),
        ("/data", "data"),
        ("/data/postgresSchema", "data.postgresSchema"),
        ("/data/migrationsPath", "data.migrationsPath"),
        ("/license", "license"),
        ("/license/class", "license.class"),
        ("/license/spdx", "license.spdx"),
        ("/license/entitlementRequired", "license.entitlementRequired"),
        ("/events", "events"),
    ];
    for (pointer, path) in keys {
        let problems = parse(&without(sample(), pointer).to_string()).expect_err(pointer);
        assert_eq!(named(&problems), [(path, "required")], "{pointer}");
    }
}

#[test]
fn all_problems_come_at_once_and_text_has_a_limit() {
    let file =
        with(with(with(sample(), "/version", json!("x")), "/service/port", json!(0)), "/events", json!(1));
    let problems = parse(&file.to_string()).expect_err("three problems");
    assert_eq!(named(&problems), [("events", "reserved"), ("version", "semver"), ("service.port", "range")]);
    assert_eq!(named(&parse("{").expect_err("no JSON")), [("", "json")]);
    assert_eq!(named(&parse("[]").expect_err("no object")), [("", "type")]);
    let long = " ".repeat(strict::MAX_FILE_BYTES + 1);
    assert_eq!(named(&parse(&long).expect_err("too long")), [("", "size")]);
    assert_eq!(named(&parse(&"[".repeat(100_000)).expect_err("too deep")), [("", "json")]);
}

/// Any JSON, with the names that the parsers know among its keys.
pub(crate) fn any_json(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        proptest::sample::select(names).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        let name = prop_oneof![proptest::sample::select(names).prop_map(ToOwned::to_owned), "\\PC{0,6}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((name, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

const NAMES: &[&str] = &[
    "moduleKey",
    "service",
    "port",
    "basePath",
    "dependencies",
    "versionRange",
    "required",
    "org",
    "data",
    "license",
    "class",
    "spdx",
    "crm",
    "1.0.0",
    ">= 1 <2",
    "open",
];

proptest! {
    #[test]
    fn any_json_gives_a_manifest_or_problems(value in any_json(NAMES)) {
        if let Err(problems) = parse(&value.to_string()) {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn any_value_anywhere_in_a_good_file_does_too(value in any_json(NAMES), at in 0..KEYS.len()) {
        let file = with(sample(), &format!("/{}", KEYS[at]), value);
        if let Err(problems) = parse(&file.to_string()) {
            prop_assert!(!problems.is_empty());
        }
    }
}
