//! Malformed requests are refused before any step, in a fixed order.

use serde_json::{Value, json};

use crate::app::{App, CAN, in_company, with};
use crate::can::crm;

#[tokio::test]
async fn without_a_good_bearer_nothing_is_read() {
    let app = App::start().await;
    for (method, path) in [
        ("POST", CAN),
        ("POST", "/internal/authz/effective-access/batch-can"),
        ("GET", "/internal/authz/effective-access/summary"),
        ("POST", "/internal/authz/grants"),
        ("POST", "/internal/authz/platform-roles"),
        ("DELETE", "/internal/authz/platform-roles/platform-superadmin/root"),
    ] {
        let call = |token: Option<String>| {
            let call = app.api.call(method.parse().expect("a method"), path).body("no JSON at all");
            match token {
                Some(token) => call.bearer(&token),
                None => call,
            }
        };
        let expired = app.issuer.token("root").expires_in(-600).sign();
        for (token, code) in [(None, "AUTH_TOKEN_MISSING"), (Some(expired), "AUTH_TOKEN_INVALID")] {
            let reply = call(token).send().await;
            app.document().check(method, path, &reply);
            assert_eq!((reply.status, reply.code()), (401, code), "{method} {path}");
        }
    }
    assert_eq!(app.audit().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_malformed_body_is_400_and_names_every_field() {
    let app = App::start().await;
    let token = app.issuer.issue("root");
    for body in ["", "{", "[]", "\"x\"", "null", "{\"a\":1}x"] {
        let call = app.api.post(CAN).bearer(&token).header("content-type", "application/json");
        let reply = call.body(body.to_owned()).send().await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{body:?}");
    }
    let reply = app.can("root", json!({ "featureKey": 7, "scope": "galaxy", "companyId": "x" })).await;
    assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"));
    let paths: Vec<_> = reply.body["error"]["details"]["fields"]
        .as_array()
        .expect("fields")
        .iter()
        .filter_map(|field| field["path"].as_str())
        .collect();
    assert_eq!(paths, ["featureKey", "scope", "companyId"]);
}

#[tokio::test]
async fn rules_of_the_shape() {
    let app = App::start().await;
    let company = app.rows().company().await;
    let text_of = |length: usize| "x".repeat(length);
    for (more, path) in [
        (json!({ "scope": "global" }), "requiredPlatformRole"),
        (json!({ "companyId": null }), "companyId"),
        (json!({ "relation": "admin" }), "object"),
        (json!({ "requiresEligibility": true }), "requiresEligibility"),
        (json!({ "actorId": "alice" }), "actorId"),
        (json!({ "featureKey": "" }), "featureKey"),
        (json!({ "featureKey": text_of(201) }), "featureKey"),
        (json!({ "featureKey": "a\u{0}b" }), "featureKey"),
        (json!({ "object": { "type": "t", "id": text_of(201) }, "relation": "r" }), "object.id"),
        (json!({ "object": { "type": 1, "id": "x" }, "relation": "r" }), "object.type"),
        (json!({ "object": [] }), "object"),
        (json!({ "relation": text_of(201), "object": { "type": "t", "id": "i" } }), "relation"),
        (json!({ "allowPlatformOperatorCompanyScope": "yes" }), "allowPlatformOperatorCompanyScope"),
        (json!({ "correlationId": text_of(201) }), "correlationId"),
    ] {
        let shown = more.to_string();
        let reply = app.can("root", with(in_company(company), more)).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{shown}");
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], path, "{shown}");
    }
    assert_eq!(app.audit().await, Vec::<Value>::new(), "a refused request is not a denial");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_413() {
    let app = App::start().await;
    let reply = app.can("root", json!({ "featureKey": "x".repeat(1 << 20) })).await;
    assert_eq!((reply.status, reply.code()), (413, "PAYLOAD_TOO_LARGE"));
}

#[tokio::test]
async fn an_unknown_feature_of_an_app_is_422_before_the_first_step() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.app("crm", &crm(), &["crm.deals.read"]).await;
    let asked =
        |feature: &str| with(in_company(company), json!({ "moduleKey": "crm", "featureKey": feature }));
    let reply = app.can("stranger", asked("crm.deals.burn")).await;
    assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"), "{}", reply.text);
    assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], "featureKey");
    assert_eq!(app.audit().await, Vec::<Value>::new());
    for known in ["crm.deals.read", "crm.access"] {
        assert_eq!(app.reason("stranger", asked(known)).await, "AUTH_USER_NOT_FOUND", "{known}");
    }
    rows.run(
        "UPDATE registry.modules SET kind = 'module', service_client_id = NULL, service_subject = NULL, port = 8150 WHERE key = 'crm'",
    )
    .await;
    assert_eq!(
        app.reason("stranger", asked("crm.deals.burn")).await,
        "AUTH_USER_NOT_FOUND",
        "a module's are not checked"
    );
}
