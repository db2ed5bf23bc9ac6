//! Decisions that allow: the whole evidence, relations through apps, the operator exception.

use contract::id::CompanyId;
use serde_json::{Value, json};

use crate::app::{App, Rows, evidence, in_company, with};

/// Deals of an app, held directly, through a position or group, or as the app's administrator.
pub(crate) fn crm() -> Value {
    json!({ "crm_deal": {
        "company_module": { "this": true },
        "owner": { "this": true },
        "viewer": { "union": [
            { "this": true },
            { "computedUserset": "owner" },
            { "tupleToUserset": { "tupleset": "company_module", "computedUserset": "admin" } }
        ] }
    } })
}

/// An enabled app, and a company with these members.
pub(crate) async fn with_crm(members: &[&str]) -> (App, Rows, CompanyId) {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.app("crm", &crm(), &["crm.deals.read"]).await;
    rows.defaults(company, "crm").await;
    for member in members {
        rows.subject(member).await;
        rows.member(company, member).await;
    }
    (app, rows, company)
}

#[tokio::test]
async fn an_allow_tells_everything_it_looked_at_in_order() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("company:{company}#admin@user:alice"), "operator").await;
    let request = with(
        in_company(company),
        json!({
            "moduleKey": "crm", "requiredCompanyRole": "admin", "relation": "member",
            "requiredPlatformRole": "platform-superadmin", "allowPlatformOperatorCompanyScope": true,
            "object": { "type": "company_module", "id": format!("{company}/crm") }, "actorId": "alice",
        }),
    );
    let reply = app.can("alice", request).await;
    assert_eq!((reply.status, &reply.data()["allowed"]), (200, &json!(true)), "{}", reply.text);
    let mut told = reply.data()["evidence"].as_array().expect("a list").clone();
    let revision = told.pop().expect("evidence");
    assert_eq!(revision["key"], "revision");
    assert!(revision["value"].as_str().is_some_and(|value| value.starts_with("1@")), "{revision}");
    let told: Vec<_> = told.iter().map(|item| (item["key"].as_str(), item["value"].as_str())).collect();
    let company = company.to_string();
    let object = format!("company_module:{company}/crm");
    let path = format!("{object}#company@company:{company} > company:{company}#member@user:alice");
    let expected = [
        ("step", "7"),
        ("featureKey", "crm.deals.read"),
        ("subject", "alice"),
        ("scope", "company"),
        ("companyId", company.as_str()),
        ("platformRole", "platform-superadmin not held"),
        ("membership", "active"),
        ("companyRole", "admin held"),
        ("moduleKey", "crm"),
        ("moduleState", "enabled"),
        ("object", object.as_str()),
        ("anchor", "bound"),
        ("relation", "member held"),
        ("path", path.as_str()),
    ];
    assert_eq!(told, expected.map(|(key, value)| (Some(key), Some(value))));
}

#[tokio::test]
async fn without_a_relation_the_decision_stops_after_the_module() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    for relation in [json!({}), json!({ "relation": "" }), json!({ "relation": null })] {
        let reply = app.can("alice", with(in_company(company), relation)).await;
        let decision = reply.data();
        assert_eq!(decision["reason"], "ALLOWED", "{decision}");
        assert_eq!(evidence(&decision["evidence"], "stoppedAt"), "module");
        assert_eq!(evidence(&decision["evidence"], "step"), "6");
    }
}

#[tokio::test]
async fn a_relation_is_held_directly_through_a_position_a_group_and_an_administrator() {
    let everybody = ["direct", "owner", "holder", "grouped", "administrator", "nobody"];
    let (app, rows, company) = with_crm(&everybody).await;
    for tuple in [
        format!("crm_deal:1#company_module@company_module:{company}/crm"),
        "crm_deal:1#viewer@user:direct".to_owned(),
        "crm_deal:1#owner@user:owner".to_owned(),
        "crm_deal:1#viewer@position:p#holder".to_owned(),
        "crm_deal:1#owner@group:g#member".to_owned(),
        format!("company_module:{company}/crm#admin@user:administrator"),
    ] {
        rows.tuple(&tuple, "grant").await;
    }
    rows.tuple("position:p#holder@user:holder", "org").await;
    rows.tuple("group:g#member@user:grouped", "org").await;
    let request = with(
        in_company(company),
        json!({ "moduleKey": "crm", "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }),
    );
    for subject in ["direct", "owner", "holder", "grouped", "administrator"] {
        assert_eq!(app.reason(subject, request.clone()).await, "ALLOWED", "{subject}");
    }
    assert_eq!(app.reason("nobody", request).await, "ENGINE_DENIED");
}

#[tokio::test]
async fn a_superadmin_passes_membership_only_where_the_request_says_so() {
    let app = App::start().await;
    let company = app.rows().company().await;
    let role = json!({ "requiredPlatformRole": "platform-superadmin" });
    let excepted = with(role.clone(), json!({ "allowPlatformOperatorCompanyScope": true }));
    assert_eq!(app.reason("root", with(in_company(company), excepted.clone())).await, "ALLOWED");
    assert_eq!(app.reason("root", with(in_company(company), role)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    let other = json!({ "requiredPlatformRole": "other", "allowPlatformOperatorCompanyScope": true });
    assert_eq!(app.reason("root", with(in_company(company), other)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    app.rows().run(format!("UPDATE org.units SET is_active = false WHERE id = '{company}'")).await;
    assert_eq!(app.reason("root", with(in_company(company), excepted)).await, "COMPANY_INACTIVE");
}

#[tokio::test]
async fn an_operator_holds_every_module_by_the_default_grant_until_it_is_removed() {
    let (app, rows, company) = with_crm(&[]).await;
    let request = with(
        in_company(company),
        json!({
            "requiredPlatformRole": "platform-superadmin", "allowPlatformOperatorCompanyScope": true,
            "object": { "type": "company_module", "id": format!("{company}/crm") }, "relation": "admin",
        }),
    );
    assert_eq!(app.reason("root", request.clone()).await, "ALLOWED");
    rows.run("DELETE FROM authz.tuple WHERE relation = 'system'").await;
    assert_eq!(app.reason("root", request).await, "ENGINE_DENIED");
}

#[tokio::test]
async fn ids_may_be_written_in_capitals() {
    let (app, _, company) = with_crm(&["alice"]).await;
    let capitals = company.to_string().to_uppercase();
    let object = |kind: &str, id: String, relation: &str| json!({ "companyId": capitals, "object": { "type": kind, "id": id }, "relation": relation });
    let module = object("company_module", format!("{capitals}/crm"), "viewer");
    assert_eq!(app.reason("alice", with(in_company(company), module)).await, "ENGINE_DENIED");
    let module = object("company_module", format!("{capitals}/crm"), "member");
    assert_eq!(app.reason("alice", with(in_company(company), module)).await, "ALLOWED");
    let own = object("company", capitals.clone(), "member");
    assert_eq!(app.reason("alice", with(in_company(company), own)).await, "ALLOWED");
}

#[tokio::test]
async fn a_change_of_the_catalog_is_seen_by_the_next_decision() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    let request = with(
        in_company(company),
        json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }),
    );
    let unknown = app.can("alice", request.clone()).await;
    assert_eq!(evidence(&unknown.data()["evidence"], "relation"), "viewer unknown type");
    rows.app("crm", &crm(), &["crm.deals.read"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    assert_eq!(app.reason("alice", request.clone()).await, "ALLOWED");
    let smaller = json!({ "relations": { "crm_deal": { "company_module": { "this": true } } } });
    rows.run(format!("UPDATE registry.modules SET fragment = '{smaller}'")).await;
    rows.catalog_changed().await;
    let gone = app.can("alice", request).await;
    assert_eq!(evidence(&gone.data()["evidence"], "relation"), "viewer unknown relation");
}
