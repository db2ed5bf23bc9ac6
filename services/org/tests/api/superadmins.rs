//! Who opens org's port without the edge: administration routes are for superadmins by authz's word, operators' routes for
//! the operator's credential, and nothing else opens either.

use http::Method;
use serde_json::{Value, json};

use crate::guards::admin_routes;
use crate::support::{ADMIN, OPERATOR, Org, ROLE, role};

const ID: &str = "018f0000-0000-7000-8000-000000000000";

#[tokio::test]
async fn an_administration_route_asks_for_the_platform_role_of_its_bearer_every_time() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let rows = org.audit().await;
    org.authz.answer("GET", ROLE, 200, role(false, "PLATFORM_ROLE_REQUIRED"));
    let before = org.authz.requests().len();
    for (method, path) in admin_routes() {
        let reply = org.send(method.clone(), &path.replace(ID, &company), Some(json!({}))).await;
        assert_eq!((reply.status, reply.code()), (403, "PLATFORM_ROLE_REQUIRED"), "{method} {path}");
        assert_eq!(reply.body["error"]["details"]["reason"], "PLATFORM_ROLE_REQUIRED");
    }
    let asked = org.authz.requests().split_off(before);
    assert_eq!(asked.len(), admin_routes().len(), "one question each");
    assert!(asked.iter().all(|asked| asked.path == format!("/internal/authz/superadmin/{ADMIN}")));
    org.authz.answer("GET", ROLE, 200, role(false, "USER_LIFECYCLE_DISABLED"));
    let member = json!({ "companyId": company, "code": "M1", "displayName": "M" });
    let reply = org.post("/internal/org/admin/members", member.clone()).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
    assert_eq!(org.audit().await, rows, "what is refused changes nothing");
    org.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    assert_eq!(org.post("/internal/org/admin/members", member).await.status, 201);
}

#[tokio::test]
async fn without_a_whole_answer_of_authz_nobody_is_a_superadmin() {
    let org = Org::start().await;
    let company = json!({ "typeKey": "company", "code": "X", "name": "X" });
    for (what, status, body) in [
        ("503", 503, json!({ "error": {} })),
        ("404", 404, role(true, "ALLOWED")),
        ("201", 201, role(true, "ALLOWED")),
        ("no data", 200, json!({})),
        ("a text", 200, json!({ "data": { "held": "true", "reason": "ALLOWED" } })),
        ("no held", 200, json!({ "data": { "reason": "ALLOWED" } })),
    ] {
        org.authz.answer("GET", ROLE, status, body);
        let reply = org.post("/internal/org/admin/units", company.clone()).await;
        assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{what}");
        assert_eq!(reply.body["error"]["details"]["dependency"], "authz", "{what}");
    }
    org.authz.close("GET", ROLE);
    assert_eq!(org.post("/internal/org/admin/units", company.clone()).await.status, 503);
    assert!(org.audit().await.is_empty());
    org.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    assert_eq!(org.post("/internal/org/admin/units", company).await.status, 201);
}

#[tokio::test]
async fn operators_routes_open_to_the_operators_credential_and_to_nothing_else() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let rows = org.audit().await;
    let admin = format!("/internal/org/companies/{company}/admins/alice");
    let activity = format!("/internal/org/units/{company}/activity");
    let routes: [(&str, Value); 2] = [
        (&admin, json!({ "isAdmin": true, "operator": "root" })),
        (&activity, json!({ "isActive": false, "operator": "root" })),
    ];
    for (path, body) in &routes {
        let call = || org.api.call(Method::PUT, *path).json(body.clone());
        let bare = org.checked("PUT", path, call()).await;
        assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"), "{path}");
        let (user, longer) = (org.issuer.issue("alice"), format!("{OPERATOR}x"));
        for wrong in [org.token.as_str(), user.as_str(), longer.as_str(), &OPERATOR[1..], "x"] {
            let reply = org.checked("PUT", path, call().bearer(wrong)).await;
            assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_INVALID"), "{path} {wrong}");
        }
    }
    assert_eq!(org.audit().await, rows, "what is refused changes nothing");
    for (path, body) in routes {
        assert_eq!(org.operate(path, body).await.status, 200, "{path}");
    }
    let reply = org
        .checked(
            "GET",
            "/internal/org/admin/units/x",
            org.api.get("/internal/org/admin/units/x").bearer(OPERATOR),
        )
        .await;
    assert_eq!(reply.status, 401, "the credential is no bearer of a user");
}
