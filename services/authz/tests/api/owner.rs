//! The module that decides when the question names none: the owner of the object's type, for every kind of question.

use contract::id::CompanyId;
use serde_json::{Value, json};

use crate::app::{App, evidence, in_company, with};
use crate::can::with_crm;

const BATCH: &str = "/internal/authz/effective-access/batch-can";
const EVALUATION: &str = "/internal/authz/access/v1/evaluation";
const EXPLAIN: &str = "/internal/authz/effective-access/explain";
const OBJECTS: &str = "/internal/authz/effective-access/objects";

/// The answer of each route to a question about one object that names no module.
async fn reasons(app: &App, company: CompanyId, kind: &str, id: &str, relation: &str) -> [String; 4] {
    let object = json!({ "type": kind, "id": id });
    let text = |value: &Value| value.as_str().expect("a reason").to_owned();
    let question = with(in_company(company), json!({ "object": object, "relation": relation }));
    let can = app.reason("alice", question).await;
    let items = json!({ "items": [{ "object": object, "relation": relation }] });
    let batch = app.ask("POST", BATCH, "alice", Some(items)).await;
    let evaluation = json!({
        "subject": { "type": "user", "id": "alice" }, "action": { "name": relation }, "resource": object,
    });
    let evaluated = app.ask("POST", EVALUATION, "alice", Some(evaluation)).await;
    let query = format!("{EXPLAIN}?companyId={company}&objectType={kind}&objectId={id}&relation={relation}");
    let explained = app.ask("GET", &query, "alice", None).await;
    [
        can,
        text(&batch.data()[0]["decision"]["reason"]),
        text(&evaluated.body["context"]["reason"]),
        text(&explained.data()["decision"]["reason"]),
    ]
}

#[tokio::test]
async fn a_disabled_module_decides_about_its_objects_though_nobody_names_it() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let module = format!("{company}/crm");
    let list = format!("{OBJECTS}?objectType=crm_deal&relation=viewer&companyId={company}");
    for (enabled, reason, listed) in
        [(true, "ALLOWED", 1), (false, "MODULE_DISABLED", 0), (true, "ALLOWED", 1)]
    {
        rows.run(format!("UPDATE registry.modules SET enabled = {enabled} WHERE key = 'crm'")).await;
        rows.catalog_changed().await;
        assert_eq!(reasons(&app, company, "crm_deal", "1", "viewer").await, [reason; 4], "{enabled}");
        assert_eq!(reasons(&app, company, "company_module", &module, "member").await, [reason; 4]);
        let objects = app.ask("GET", &list, "alice", None).await;
        assert_eq!(objects.data()["total"], listed, "{}", objects.text);
        // Also without a relation: the decision ends with the module.
        let object = json!({ "object": { "type": "crm_deal", "id": "1" } });
        assert_eq!(app.reason("alice", with(in_company(company), object)).await, reason);
    }
}

#[tokio::test]
async fn a_module_that_is_named_stays_the_one_that_decides() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.app("desk", &json!({}), &[]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let deal = json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" });
    let named = |key: &str| json!({ "moduleKey": key, "featureKey": format!("{key}.access") });
    let ask = async |key: &str| {
        app.can("alice", with(with(in_company(company), deal.clone()), named(key))).await.data().clone()
    };
    assert_eq!(ask("crm").await["reason"], "ALLOWED");
    let other = ask("desk").await;
    assert_eq!(
        (&other["reason"], evidence(&other["evidence"], "anchor")),
        (&json!("ENGINE_DENIED"), "other module")
    );
    rows.run("UPDATE registry.modules SET enabled = false WHERE key = 'desk'").await;
    rows.catalog_changed().await;
    assert_eq!(ask("desk").await["reason"], "MODULE_DISABLED");
}

/// A question about an app must use one of its features, whether the question names the app, its object or its feature.
#[tokio::test]
async fn an_unknown_feature_of_an_app_that_is_not_named_is_422_and_never_an_allow() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.module("desk", &json!({ "desk_ticket": { "company_module": { "this": true } } })).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let deal = json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" });
    let of_feature = |feature: &str| with(in_company(company), json!({ "featureKey": feature }));
    for known in ["crm.deals.read", "crm.access"] {
        assert_eq!(app.reason("alice", of_feature(known)).await, "ALLOWED", "{known}");
        assert_eq!(app.reason("alice", with(of_feature(known), deal.clone())).await, "ALLOWED", "{known}");
    }
    let refused = [
        of_feature("crm.deals.burn"),
        of_feature("crm."),
        with(of_feature("crm.deals.burn"), deal.clone()),
        with(of_feature("another.thing"), deal.clone()),
    ];
    for question in refused {
        let reply = app.can("alice", question.clone()).await;
        assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"), "{question} {}", reply.text);
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], "featureKey");
    }
    for unchecked in ["desk.nothing", "another.thing", "plain"] {
        assert_eq!(app.reason("alice", of_feature(unchecked)).await, "ALLOWED", "{unchecked}: of no app");
    }
}
