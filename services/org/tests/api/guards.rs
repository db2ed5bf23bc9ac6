//! Checks that every route makes before its own work: bearer, path and body. Covers all administration routes.

use http::Method;
use serde_json::json;

use crate::support::{Org, fields};

const ID: &str = "018f0000-0000-7000-8000-000000000000";

/// Every administration route, with unknown ids.
pub(crate) fn admin_routes() -> Vec<(Method, String)> {
    let route = |method, path: &str| (method, format!("/internal/org/admin{}", path.replace("ID", ID)));
    vec![
        route(Method::POST, "/units"),
        route(Method::GET, "/units/ID"),
        route(Method::GET, "/units/ID/subtree"),
        route(Method::POST, "/members"),
        route(Method::GET, "/members?companyId=ID"),
        route(Method::PUT, "/members/ID"),
        route(Method::POST, "/members/ID/link-user"),
        route(Method::DELETE, "/members/ID/link-user"),
        route(Method::GET, "/companies/ID/positions"),
        route(Method::POST, "/companies/ID/positions"),
        route(Method::POST, "/positions/ID/assignments"),
        route(Method::POST, "/assignments/ID/end"),
        route(Method::GET, "/companies/ID/groups"),
        route(Method::POST, "/companies/ID/groups"),
        route(Method::GET, "/groups/ID/members"),
        route(Method::POST, "/groups/ID/members"),
        route(Method::DELETE, "/groups/ID/members/ID"),
    ]
}

/// The administration routes that read a body.
fn with_body() -> Vec<(Method, String)> {
    let mut routes = admin_routes();
    routes.retain(|(method, path)| {
        (method == Method::POST || method == Method::PUT) && !path.ends_with("/end")
    });
    routes
}

#[tokio::test]
async fn the_seventeen_administration_routes_want_a_bearer() {
    let org = Org::start().await;
    assert_eq!(admin_routes().len(), 17);
    for (method, path) in admin_routes() {
        let bare = org.checked(method.as_str(), &path, org.api.call(method.clone(), &path)).await;
        assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"), "{method} {path}");
        let expired = org.issuer.token("x").expires_in(-60).sign();
        let call = org.api.call(method.clone(), &path).bearer(&expired);
        let refused = org.checked(method.as_str(), &path, call).await;
        assert_eq!((refused.status, refused.code()), (401, "AUTH_TOKEN_INVALID"), "{method} {path}");
    }
    assert!(org.audit().await.is_empty());
}

#[tokio::test]
async fn a_body_is_json_of_limited_size_without_nul() {
    let org = Org::start().await;
    for (method, path) in with_body() {
        let call = || org.api.call(method.clone(), &path).bearer(&org.token);
        let json = || call().header("content-type", "application/json");
        for bad in ["{", "[]", "null", "\"x\"", ""] {
            let reply = org.checked(method.as_str(), &path, json().body(bad)).await;
            assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{method} {path} {bad}");
        }
        let form = call().header("content-type", "text/plain").body("{}");
        assert_eq!(org.checked(method.as_str(), &path, form).await.code(), "BAD_REQUEST", "{method} {path}");
        let nul = json().body(json!({ "extra": { "deep": "a\0b" } }).to_string());
        let reply = org.checked(method.as_str(), &path, nul).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{method} {path}");
        assert!(fields(&reply).contains(&"extra.deep control".to_owned()), "{}", reply.text);
        let fits = json().body(json!({ "extra": "x".repeat((1 << 20) - 12) }).to_string());
        assert!(
            [400, 404].contains(&org.checked(method.as_str(), &path, fits).await.status),
            "{method} {path}"
        );
        let large = json().body("x".repeat((1 << 20) + 1));
        let reply = org.checked(method.as_str(), &path, large).await;
        assert_eq!((reply.status, reply.code()), (413, "PAYLOAD_TOO_LARGE"), "{method} {path}");
    }
    assert!(org.audit().await.is_empty(), "a refused request leaves no audit row");
}

#[tokio::test]
async fn a_malformed_id_is_400_where_the_row_lists_it_and_unknown_elsewhere() {
    let org = Org::start().await;
    for (method, path) in admin_routes() {
        if !path.contains(ID) || path.contains('?') {
            continue;
        }
        for bad in ["x", "018f00000000700080000000000000000", "%7B018f0000-0000-7000-8000-000000000000%7D"] {
            let path = path.replacen(ID, bad, 1);
            let reply = org.send(method.clone(), &path, None).await;
            let expected = match path.rsplit('/').next() {
                Some("end") => 404,
                Some("members") if method == Method::GET => 200,
                Some(_) if method == Method::DELETE && path.contains("/groups/") => 404,
                _ => 400,
            };
            assert_eq!(reply.status, expected, "{method} {path} {}", reply.text);
        }
    }
}

#[tokio::test]
async fn without_its_database_org_refuses() {
    let org = Org::without_a_database().await;
    let create = json!({ "typeKey": "company", "code": "X", "name": "X" });
    for reply in [
        org.mine("alice").await,
        org.get(&format!("/internal/org/companies/{ID}/members/by-kcsub/alice")).await,
        org.post("/internal/org/admin/units", create).await,
    ] {
        assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{}", reply.text);
        assert_eq!(reply.body["error"]["details"]["dependency"], "postgres");
    }
    assert_eq!(org.api.get("/ready").send().await.status, 503);
    assert_eq!(org.api.get("/health").send().await.status, 200);
}
