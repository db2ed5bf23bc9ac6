//! Tests of each rule of an app's manifest: accepted and refused values, by field and rule.

use contract::fields;
use serde_json::{Value, json};

use super::*;

fn sample() -> Value {
    json!({
        "key": "crm", "displayName": "CRM", "version": "1.0.0", "serviceClientId": "crm-backend",
        "features": ["crm.deals.read"],
        "authzFragment": {"crm_deal": {"company_module": {"this": true}, "owner": {"this": true}}},
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut manifest = sample();
    manifest[name] = value;
    manifest
}

fn reserved() -> Reserved {
    let module_keys = ["docs".to_owned()].into();
    Reserved { module_keys, idp_admin_client: Some("keycloak-admin".to_owned()) }
}

fn check_sent(sent: &Value) -> Result<Checked, Vec<FieldProblem>> {
    let manifest = fields::parse::<AppManifest>(sent).expect("every key is present with the right type");
    check(manifest, sent, &reserved())
}

#[expect(clippy::needless_pass_by_value, reason = "a test writes json!(…) here")]
fn refuses(name: &str, value: Value, path: &str, rule: &str) {
    let problems = check_sent(&with(name, value.clone())).expect_err("refused");
    let found: Vec<_> =
        problems.iter().map(|problem| (problem.path.as_str(), problem.rule.as_ref())).collect();
    assert_eq!(found, [(path, rule)], "{name} {value}");
}

fn shape_refuses(sent: &Value, path: &str, rule: &str) {
    let problems = fields::parse::<AppManifest>(sent).expect_err("refused");
    let found: Vec<_> =
        problems.iter().map(|problem| (problem.path.as_str(), problem.rule.as_ref())).collect();
    assert_eq!(found, [(path, rule)], "{sent}");
}

#[test]
fn every_key_but_features_is_required_and_has_a_type() {
    for name in ["key", "displayName", "version", "serviceClientId", "authzFragment"] {
        shape_refuses(&with(name, Value::Null), name, "required");
        shape_refuses(&with(name, json!(7)), name, "type");
    }
    shape_refuses(&with("features", json!("crm.a")), "features", "type");
    shape_refuses(&with("features", json!(["crm.a", 1])), "features[1]", "type");
    assert_eq!(check_sent(&with("features", Value::Null)).map(|checked| checked.features.len()), Ok(0));
}

#[test]
fn keys_have_a_pattern_and_some_are_the_platforms() {
    for bad in ["c", "CRM", "1crm", "crm-app", "crm.app", ""] {
        let sent = with("features", json!([]));
        let problems = check_sent(&{
            let mut sent = sent;
            sent["key"] = json!(bad);
            sent
        })
        .expect_err(bad);
        assert_eq!((problems[0].path.as_str(), problems[0].rule.as_ref()), ("key", "pattern"));
    }
    for taken in RESERVED_KEYS.into_iter().chain(["docs", "company", "document"]) {
        let mut sent = with("key", json!(taken));
        sent["features"] = json!([]);
        let problems = check_sent(&sent).expect_err(taken);
        assert_eq!((problems[0].path.as_str(), problems[0].rule.as_ref()), ("key", "reserved"), "{taken}");
    }
}

#[test]
fn clients_have_a_pattern_and_some_are_the_platforms() {
    for good in ["ab", "crm-backend", "a_1", &format!("a{}", "b".repeat(63))] {
        check_sent(&with("serviceClientId", json!(good))).expect(good);
    }
    for bad in ["a", "Crm", "1a", "a b", &"a".repeat(65)] {
        refuses("serviceClientId", json!(bad), "serviceClientId", "pattern");
    }
    for taken in ["platform-frontend", "admin-cli", "keycloak-admin"] {
        refuses("serviceClientId", json!(taken), "serviceClientId", "reserved");
    }
}

#[test]
fn names_and_versions() {
    refuses("displayName", json!("  "), "displayName", "label");
    refuses("displayName", json!("a\u{7}"), "displayName", "label");
    refuses("displayName", json!("a".repeat(201)), "displayName", "label");
    check_sent(&with("displayName", json!("ä".repeat(200)))).expect("at the limit");
    for bad in ["1.0", "v1.0.0", "", "latest"] {
        refuses("version", json!(bad), "version", "semver");
    }
    refuses("colour", json!("red"), "colour", "unknown_key");
    check_sent(&with("_note", json!({"any": "thing"}))).expect("a comment");
}

#[test]
fn features_start_with_the_key_once_each() {
    refuses("features", json!(["deals.read"]), "features[0]", "prefix");
    refuses("features", json!(["crm.a", "crmx.a"]), "features[1]", "prefix");
    refuses("features", json!(["crm.a", "crm.a"]), "features[1]", "unique");
    refuses("features", json!(["crm.access"]), "features[0]", "reserved");
    refuses("features", json!(["crm."]), "features[0]", "pattern");
    refuses("features", json!(["crm.ä"]), "features[0]", "pattern");
    refuses("features", json!([format!("crm.{}", "a".repeat(125))]), "features[0]", "pattern");
    let many = |count: usize| json!((0..count).map(|n| format!("crm.f{n}")).collect::<Vec<_>>());
    check_sent(&with("features", many(MAX_FEATURES))).expect("at the limit");
    refuses("features", many(MAX_FEATURES + 1), "features", "limit");
}

#[test]
fn the_fragment_keeps_the_grammar_and_every_problem_is_told() {
    let anchored =
        |relation: Value| json!({"crm_deal": {"company_module": {"this": true}, "seen": relation}});
    refuses(
        "authzFragment",
        json!({"company": {"company_module": {"this": true}}}),
        "authzFragment.company",
        "base_type",
    );
    refuses("authzFragment", json!({"crm_deal": {}}), "authzFragment.crm_deal.company_module", "anchor");
    refuses("authzFragment", anchored(json!({"union": []})), "authzFragment.crm_deal.seen.union", "union");
    let mut sent = with("version", json!("one"));
    sent["authzFragment"] = anchored(json!({"this": false}));
    sent["key"] = json!("CRM");
    let paths: Vec<String> =
        check_sent(&sent).expect_err("three").into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["key", "features[0]", "version", "authzFragment.crm_deal.seen.this"]);
}

#[test]
fn content_is_everything_but_the_version_and_the_order() {
    let hash = |sent: &Value| check_sent(sent).expect("accepted").content_hash();
    let mut two = with("features", json!(["crm.a", "crm.b"]));
    let mut same = with("features", json!(["crm.b", "crm.a"]));
    same["version"] = json!("2.0.0");
    assert_eq!(hash(&two), hash(&same));
    for (name, value) in [
        ("displayName", json!("Other")),
        ("serviceClientId", json!("other-backend")),
        ("features", json!([])),
        ("authzFragment", json!({})),
    ] {
        two = sample();
        two[name] = value;
        assert_ne!(hash(&two), hash(&sample()), "{name}");
    }
}
