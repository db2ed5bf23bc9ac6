//! Every rule of an app's manifest and relations, with the contract's cases: a manifest that satisfies the rule is
//! registered; one that breaks it is refused with the field's name and does not change the catalog. Prints the table; a
//! rule without a case fails.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use contract::FieldProblem;
use contract::rules::{self, Rule};
use serde_json::{Value, json};

use crate::app::{TestApp, fields, made, start};
use crate::apps::manifest;
use crate::cases::{self, Case};

/// A row of the table: rule, path, and the response status of the refused case.
struct Row(String, String, u16);

#[tokio::test]
async fn every_rule_names_its_field() {
    let mut rows = of_a_manifest().await;
    rows.extend(of_its_relations().await);
    rows.extend(beside_what_is_registered().await);
    let tried: BTreeSet<&str> = rows.iter().map(|Row(rule, ..)| rule.as_str()).collect();
    let listed: BTreeSet<&str> = [rules::APP, rules::RELATIONS].concat().iter().map(|rule| rule.id).collect();
    assert_eq!(tried, listed);
    let mut table = format!("{:<28} status path\n", "rule");
    for Row(rule, path, status) in &rows {
        let path: String = path.chars().take(80).collect();
        writeln!(table, "{rule:<28} {status}    {path}").expect("text grows");
    }
    writeln!(table, "{} rules, {} cases refused by name", listed.len(), rows.len()).expect("text grows");
    std::io::stdout().write_all(table.as_bytes()).expect("the table can be printed");
}

async fn of_a_manifest() -> Vec<Row> {
    let mut rows = Vec::new();
    let app = start(&[made("alpha", 8201)], "").await;
    for Case { rule, accepted, refused, path, .. } in cases::cases(cases::APP) {
        let problems = registry::check_app(&accepted.to_string(), &[made("alpha", 8201).bundle()]);
        assert_eq!(problems, [], "{rule}: {accepted}");
        rows.push(refuse(&app, rules::APP, &rule, &refused, &path, &path).await);
    }
    app.end().await;
    rows
}

async fn of_its_relations() -> Vec<Row> {
    let mut rows = Vec::new();
    let app = start(&[], "").await;
    let with = |version: String, relations: Value| {
        let mut manifest = manifest("crm", &version);
        manifest["authzFragment"] = relations;
        manifest
    };
    for (number, Case { rule, accepted, refused, path, .. }) in
        cases::cases(cases::RELATIONS).into_iter().enumerate()
    {
        let reply = app.register(with(format!("1.{number}.0"), accepted)).await;
        assert_eq!(reply.status, 200, "{rule}: {}", reply.text);
        let dot = if path.is_empty() { "" } else { "." };
        let at = format!("authzFragment{dot}{path}");
        rows.push(
            refuse(&app, rules::RELATIONS, &rule, &with("2.0.0".to_owned(), refused), &at, &path).await,
        );
    }
    app.end().await;
    rows
}

/// The rules against what is already registered.
async fn beside_what_is_registered() -> Vec<Row> {
    let app = start(&[], "").await;
    let with = |mut manifest: Value, name: &str, value: Value| {
        manifest[name] = value;
        manifest
    };
    for good in [manifest("crm", "1.1.0"), manifest("erp", "1.0.0")] {
        assert_eq!(app.register(good).await.status, 200);
    }
    app.sql("INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source) VALUES ('crm_deal', '1', 'viewer', 'user', 'alice', 'grant')").await;
    let taken = json!({"crm_deal": {"company_module": {"this": true}}});
    let mut rows = Vec::new();
    for (rule, body, path) in [
        ("app.version_higher", manifest("crm", "1.0.9"), "version"),
        ("app.version_content", with(manifest("crm", "1.1.0"), "displayName", json!("Other")), "version"),
        (
            "app.client_once",
            with(manifest("erp", "1.1.0"), "serviceClientId", json!("crm-backend")),
            "serviceClientId",
        ),
        ("app.object_type", with(manifest("erp", "1.1.0"), "authzFragment", taken), "authzFragment.crm_deal"),
        ("app.in_use", with(manifest("crm", "1.2.0"), "authzFragment", json!({})), "authzFragment.crm_deal"),
    ] {
        rows.push(refuse(&app, rules::APP, rule, &body, path, path).await);
    }
    app.end().await;
    rows
}

/// Registers a manifest and expects a refusal that names exactly one field, by this rule, and changes nothing.
async fn refuse(app: &TestApp, list: &[Rule], rule: &str, body: &Value, path: &str, below: &str) -> Row {
    let (revision, audit) = (app.revision().await, app.audit().await);
    let reply = app.register(body.clone()).await;
    let shape = ["app.required", "app.type"].contains(&rule);
    let expected = if shape { (400, "VALIDATION_ERROR") } else { (422, "VALIDATION_FAILED") };
    assert_eq!((reply.status, reply.code()), expected, "{rule}: {}", reply.text);
    let found = fields(&reply);
    let [one] = found.as_slice() else { panic!("{rule}: not one field: {found:?}") };
    let (at, word) = one.rsplit_once(' ').expect("path and rule");
    let problem =
        FieldProblem { path: below.to_owned(), rule: word.to_owned().into(), message: String::new() };
    assert_eq!((rules::of(list, &problem).map(|rule| rule.id), at), (Some(rule), path), "{}", reply.text);
    assert_eq!((app.revision().await, app.audit().await), (revision, audit), "{rule} changed something");
    Row(rule.to_owned(), path.to_owned(), reply.status)
}
