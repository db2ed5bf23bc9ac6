//! The summary: features by their rules, role bindings, direct tuples, the fragments' entries; for the bearer only.

use std::sync::Arc;

use authz::engine::{DEFAULT_BUDGET, Engine, Model, Portion};
use authz::facts::SubjectRef;
use contract::id::CompanyId;
use serde_json::{Value, json};

use crate::app::{App, engine};
use crate::can::crm;

const SUMMARY: &str = "/internal/authz/effective-access/summary";

async fn summary(app: &App, subject: &str, query: &str) -> Value {
    let reply = app.ask("GET", &format!("{SUMMARY}{query}"), subject, None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

/// The module `desk` with a feature of each kind of rule.
async fn desk(app: &App) {
    let rows = app.rows();
    rows.app("desk", &json!({}), &["desk.a.read", "desk.b.admin", "desk.c.root", "desk.d.own"]).await;
    let rule = |key: &str, kind: &str, payload: Value| json!({ "featureKey": key, "accessRuleKind": kind, "accessRulePayload": payload });
    let on_module = |relation: &str| json!({ "objectType": "company_module", "relation": relation });
    let fragment = json!({
        "relations": {},
        "features": [
            rule("desk.a.read", "relation", on_module("member")),
            rule("desk.b.admin", "relation", on_module("admin")),
            rule("desk.c.root", "platform_role", json!({})),
            rule("desk.d.own", "relation", json!({ "objectType": "company", "relation": "admin" })),
        ],
        "rowScopes": [{ "entityType": "desk_row", "rules": [1] }],
        "fieldSets": [{ "fieldSet": "pay", "policy": "hidden" }],
    });
    rows.run(format!("UPDATE registry.modules SET fragment = '{fragment}' WHERE key = 'desk'")).await;
    rows.catalog_changed().await;
}

async fn world() -> (App, CompanyId, CompanyId) {
    let app = App::start().await;
    let rows = app.rows();
    let (first, second) = (rows.company().await, rows.company().await);
    rows.subject("alice").await;
    rows.app("crm", &crm(), &["crm.deals.read"]).await;
    desk(&app).await;
    for company in [first, second] {
        rows.member(company, "alice").await;
        rows.defaults(company, "desk").await;
        rows.tuple(&format!("crm_deal:{company}#company_module@company_module:{company}/crm"), "grant").await;
        for relation in ["owner", "viewer"] {
            rows.tuple(&format!("crm_deal:{company}#{relation}@user:alice"), "grant").await;
        }
    }
    rows.tuple(&format!("company_module:{second}/desk#admin@user:alice"), "grant").await;
    rows.tuple(&format!("company:{second}#admin@user:alice"), "operator").await;
    // Held through a group: it counts for features, but is not a direct tuple.
    rows.tuple(&format!("company_module:{first}/crm#admin@group:g#member"), "grant").await;
    rows.tuple("group:g#member@user:alice", "org").await;
    (app, first, second)
}

#[tokio::test]
async fn it_tells_what_holds_in_one_company() {
    let (app, first, _) = world().await;
    let expected = json!({
        "apiVersion": 1, "subjectId": "alice", "companyId": first, "moduleKey": "",
        "featureKeys": ["crm.access", "crm.deals.read", "desk.a.read", "desk.access"],
        "roleBindings": [{ "scope": "company", "role": "member", "companyId": first }],
        "objectAccess": [{ "objectType": "crm_deal", "objectId": first, "relations": ["owner", "viewer"] }],
        "objectAccessTruncated": false,
        "rowScopes": [{ "moduleKey": "desk", "entityType": "desk_row", "rules": [1] }],
        "fieldPolicies": [{ "moduleKey": "desk", "fieldSet": "pay", "policy": "hidden" }],
    });
    assert_eq!(summary(&app, "alice", &format!("?companyId={first}&kcSub=alice")).await, expected);
}

#[tokio::test]
async fn without_a_company_it_tells_of_all_of_them() {
    let (app, first, second) = world().await;
    let told = summary(&app, "alice", "").await;
    assert_eq!(told["companyId"], "");
    let keys = ["crm.access", "crm.deals.read", "desk.a.read", "desk.access", "desk.b.admin", "desk.d.own"];
    assert_eq!(told["featureKeys"], json!(keys));
    let bindings = told["roleBindings"].as_array().expect("a list");
    let has = |role: &str, company: CompanyId| {
        bindings.contains(&json!({ "scope": "company", "role": role, "companyId": company }))
    };
    assert!(has("member", first) && has("member", second) && has("admin", second), "{told}");
    assert_eq!(bindings.len(), 3, "{told}");
    let objects = told["objectAccess"].as_array().expect("a list");
    let tier = json!({
        "objectType": "company_module", "objectId": format!("{second}/desk"), "relations": ["admin"],
    });
    assert!(objects.contains(&tier), "{told}");
    assert_eq!(objects.len(), 3, "the tier that a group gives is not listed: {told}");
}

#[tokio::test]
async fn a_superadmin_has_the_platform_role_and_its_features() {
    let (app, first, _) = world().await;
    let told = summary(&app, "root", &format!("?companyId={first}")).await;
    assert_eq!(told["featureKeys"], json!(["desk.c.root"]), "no member of the company");
    let expected = json!([{ "scope": "global", "role": "platform-superadmin", "companyId": null }]);
    assert_eq!(told["roleBindings"], expected);
}

#[tokio::test]
async fn a_disabled_module_and_an_inactive_membership_give_nothing() {
    let (app, first, _) = world().await;
    let query = format!("?companyId={first}");
    app.rows().run("UPDATE registry.modules SET enabled = false WHERE key = 'desk'").await;
    app.rows().catalog_changed().await;
    let told = summary(&app, "alice", &query).await;
    assert_eq!(told["featureKeys"], json!(["crm.access", "crm.deals.read"]));
    assert_eq!(told["rowScopes"], json!([]));
    for change in ["UPDATE org.members SET is_active = false", "UPDATE org.units SET is_active = false"] {
        app.rows().run(change).await;
        let told = summary(&app, "alice", &query).await;
        assert_eq!((&told["featureKeys"], &told["roleBindings"]), (&json!([]), &json!([])), "{change}");
        app.rows().run("UPDATE org.members SET is_active = true").await;
    }
}

fn objects(told: &Value) -> Vec<String> {
    let listed = told["objectAccess"].as_array().expect("a list");
    let name = |one: &Value| one["objectId"].as_str().expect("an id").to_owned();
    listed.iter().map(name).collect()
}

/// What `can` would deny before it checks the relation is not listed, whatever tuples exist.
#[tokio::test]
async fn objects_are_those_of_companies_and_modules_that_are_open_to_the_subject() {
    let (app, first, second) = world().await;
    let of = async || {
        let mut all = objects(&summary(&app, "alice", "").await);
        all.sort_unstable();
        let own = objects(&summary(&app, "alice", &format!("?companyId={first}")).await);
        (all, own)
    };
    let (tier, deals) = (format!("{second}/desk"), [first.to_string(), second.to_string()]);
    let mut every = vec![tier.clone(), deals[0].clone(), deals[1].clone()];
    every.sort_unstable();
    let mut others = vec![tier.clone(), deals[1].clone()];
    others.sort_unstable();
    assert_eq!(of().await, (every.clone(), vec![deals[0].clone()]), "control");
    for (change, back) in [
        (
            "org.members SET is_active = false WHERE company_id",
            "org.members SET is_active = true WHERE company_id",
        ),
        (
            "org.members SET user_id = NULL WHERE company_id",
            "org.members SET user_id = 'alice' WHERE company_id",
        ),
        ("org.units SET is_active = false WHERE id", "org.units SET is_active = true WHERE id"),
    ] {
        app.rows().run(format!("UPDATE {change} = '{first}'")).await;
        assert_eq!(of().await, (others.clone(), Vec::new()), "{change}");
        app.rows().run(format!("UPDATE {back} = '{first}'")).await;
        assert_eq!(of().await.0, every, "{back}");
    }
    let tuple = format!("crm_deal:{first}#company_module@company_module:{second}/crm");
    app.rows().tuple(&tuple, "grant").await;
    assert_eq!(of().await, (others, Vec::new()), "an object that claims two companies is in neither");
    for (module, left) in [("crm", vec![tier]), ("desk", Vec::new())] {
        app.rows().run(format!("UPDATE registry.modules SET enabled = false WHERE key = '{module}'")).await;
        app.rows().catalog_changed().await;
        assert_eq!(of().await, (left, Vec::new()), "{module} is disabled");
    }
}

fn tuples(told: &Value) -> Vec<String> {
    let of_object = |one: &Value| {
        let [object_type, id] = ["objectType", "objectId"].map(|name| one[name].as_str().expect("a text"));
        let relations = one["relations"].as_array().expect("a list").iter();
        relations
            .map(|relation| format!("{object_type}:{id}#{}", relation.as_str().expect("a text")))
            .collect()
    };
    told["objectAccess"].as_array().expect("a list").iter().flat_map::<Vec<_>, _>(of_object).collect()
}

/// Memory reads own tuples; SQL reads them while there is no memory.
#[tokio::test]
async fn both_engines_read_the_same_own_tuples() {
    let (app, first, second) = world().await;
    let rows = app.rows();
    let closed = rows.company().await;
    for tuple in [
        "crm_deal:none#viewer@user:alice",
        "crm_deal:closed#viewer@user:alice",
        &format!("crm_deal:closed#company_module@company_module:{closed}/crm"),
        "crm_deal:two#viewer@user:alice",
        &format!("crm_deal:two#company_module@company_module:{first}/crm"),
        &format!("crm_deal:two#company_module@company_module:{second}/crm"),
        "crm_deal:unknown#viewer@user:alice",
        &format!("crm_deal:unknown#company_module@company_module:{first}/unknown"),
        &format!("company_module:{second}/unknown#admin@user:alice"),
        &format!("company_module:{closed}/desk#admin@user:alice"),
    ] {
        rows.tuple(tuple, "grant").await;
    }
    crate::restore::until_loaded(&app).await;
    let by_memory = tuples(&summary(&app, "alice", "").await);
    assert_eq!(by_memory.len(), 5, "{by_memory:?}");
    let mut companies = [first, second];
    companies.sort_unstable();
    let asks = |_: &Arc<Model>| Vec::new();
    let portion = |most_objects| Portion {
        subject: SubjectRef::user("alice"),
        companies: &companies,
        asks: &asks,
        objects_of: &companies,
        most_objects,
    };
    let by_sql = engine(&app.database, DEFAULT_BUDGET);
    let read = by_sql.summarize(&portion(100)).await.expect("a summary");
    let mut found: Vec<_> = [read.tiers, read.objects].concat();
    found.sort_by_key(|own| {
        (own.object.kind != "company_module", own.object.id.clone(), own.relation.clone())
    });
    let found: Vec<_> = found.into_iter().map(|own| format!("{}#{}", own.object, own.relation)).collect();
    assert_eq!(found, by_memory);
    assert_eq!(read.looked_at, 8);
    let read = by_sql.summarize(&portion(3)).await.expect("a summary");
    assert_eq!(read.looked_at, 3);
}

/// A summary looks at a limited number of tuples on objects, whatever company they belong to, but always lists tiers.
#[tokio::test]
async fn a_summary_looks_at_ten_thousand_tuples_and_says_that_there_are_more() {
    let (app, first, second) = world().await;
    let add = async |id: &str, from: u32, to: u32| {
        let insert = "INSERT INTO authz.tuple SELECT 'crm_deal'";
        let series = format!("FROM generate_series({from}, {to}) n");
        app.rows()
            .run(format!(
                "{insert}, '{id}' || n, 'company_module', 'company_module', '{first}/crm', '', 'grant' {series};
                 {insert}, '{id}' || n, 'owner', 'user', 'alice', '', 'grant' {series}"
            ))
            .await;
        let told = summary(&app, "alice", "").await;
        let relations = |one: &Value| one["relations"].as_array().map_or(0, Vec::len);
        let count: usize = told["objectAccess"].as_array().expect("a list").iter().map(relations).sum();
        let has_tier = objects(&told).contains(&format!("{second}/desk"));
        (count, has_tier, told["objectAccessTruncated"] == true)
    };
    assert_eq!(add("a", 1, 9_995).await, (10_000, true, false), "with four on deals and a tier");
    assert_eq!(add("a", 9_996, 9_996).await, (10_000, true, true));
    app.rows().run("DELETE FROM authz.tuple WHERE subject_id = 'alice' AND object_id = 'a1'").await;
    assert_eq!(add("b", 1, 0).await, (10_000, true, false), "one less");
    // Objects without a company count towards the limit all the same.
    app.rows().run("DELETE FROM authz.tuple WHERE object_type = 'crm_deal' AND object_id LIKE 'a%' AND relation = 'company_module'").await;
    assert_eq!(add("b", 1, 1).await, (6, true, false));
    assert_eq!(add("b", 2, 2).await, (7, true, true), "nearly all objects have no company");
}

#[tokio::test]
async fn who_may_do_nothing_is_told_nothing() {
    let (app, _, _) = world().await;
    let lists = ["featureKeys", "roleBindings", "objectAccess", "rowScopes", "fieldPolicies"];
    app.rows().run("UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'alice'").await;
    for subject in ["alice", "stranger"] {
        let told = summary(&app, subject, "").await;
        for list in lists {
            assert_eq!(told[list], json!([]), "{subject} {list}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_asked_and_what_cannot_be_answered() {
    let (app, _, _) = world().await;
    for (query, path) in [("?companyId=x", "companyId"), ("?kcSub=root", "kcSub")] {
        let reply = app.ask("GET", &format!("{SUMMARY}{query}"), "alice", None).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{query}");
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], path);
    }
    app.rows().look(301).await;
    let reply = app.ask("GET", SUMMARY, "alice", None).await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{}", reply.text);
    assert_eq!(reply.body["error"]["details"]["dependency"], "idp");
}
