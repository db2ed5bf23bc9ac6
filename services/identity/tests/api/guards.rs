//! How every route checks a body before its own work, and how it responds without its database.

use http::Method;
use serde_json::json;

use crate::support::{Identity, OPERATOR, fields};

#[tokio::test]
async fn a_body_is_json_of_limited_size_without_nul() {
    let identity = Identity::start().await;
    for (method, path) in [
        (Method::POST, "/internal/identity/provision"),
        (Method::POST, "/internal/identity/users/lookup"),
        (Method::POST, "/internal/identity/users/resolve"),
        (Method::PUT, "/internal/identity/users/alice/lifecycle"),
    ] {
        let credential =
            if path.ends_with("provision") { identity.issuer.issue("alice") } else { OPERATOR.to_owned() };
        let call = || identity.api.call(method.clone(), path).bearer(&credential);
        let json = || call().header("content-type", "application/json");
        for bad in ["{", "[]", "null", ""] {
            let reply = identity.checked(method.as_str(), path, json().body(bad)).await;
            assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{path} {bad}");
        }
        let text = call().header("content-type", "text/plain").body("{}");
        assert_eq!(identity.checked(method.as_str(), path, text).await.code(), "BAD_REQUEST", "{path}");
        let nul = json().body(json!({ "extra": "a\0b" }).to_string());
        let reply = identity.checked(method.as_str(), path, nul).await;
        assert!(fields(&reply).contains(&"extra control".to_owned()), "{path} {}", reply.text);
        let fits = json().body(json!({ "extra": "x".repeat((1 << 20) - 12) }).to_string());
        assert_eq!(identity.checked(method.as_str(), path, fits).await.code(), "VALIDATION_ERROR", "{path}");
        let large = identity.checked(method.as_str(), path, json().body("x".repeat((1 << 20) + 1))).await;
        assert_eq!((large.status, large.code()), (413, "PAYLOAD_TOO_LARGE"), "{path}");
    }
    assert!(identity.audit().await.is_empty());
}

#[tokio::test]
async fn every_documented_route_is_there() {
    let identity = Identity::start().await;
    for operation in testkit::OpenApi::parse(identity::OPENAPI).operations() {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let reply = identity
            .send(method, &path.replace("{kcSub}", "nobody").replace("{clientId}", "nobody"), None)
            .await;
        assert_ne!(reply.status, 405, "{operation}");
    }
    assert_eq!(identity.api.get("/internal/identity/nothing").send().await.status, 404);
    assert_eq!(identity.api.get("/internal/identity/provision").send().await.status, 405);
}

#[tokio::test]
async fn operators_routes_open_to_the_operators_credential_and_to_nothing_else() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    let path = |tail: &str| format!("/internal/identity/users/alice/{tail}");
    let body = json!({ "state": "suspended", "reason": "r", "operator": "root" });
    for (method, path) in
        [(Method::PUT, path("lifecycle")), (Method::POST, path("look")), (Method::GET, path("state"))]
    {
        let call = || identity.api.call(method.clone(), &path).json(body.clone());
        let rows = identity.audit().await;
        let bare = identity.checked(method.as_str(), &path, call()).await;
        assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"), "{path}");
        for wrong in ["x", &OPERATOR[1..], &format!("{OPERATOR}x")] {
            let reply = identity.checked(method.as_str(), &path, call().bearer(wrong)).await;
            assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_INVALID"), "{path} {wrong}");
        }
        assert_eq!(identity.audit().await, rows, "a refused request changes nothing");
        let reply = identity.checked(method.as_str(), &path, call().bearer(OPERATOR)).await;
        assert_eq!(reply.status, 200, "{path}");
    }
}

#[tokio::test]
async fn names_are_read_by_services_and_operators_and_a_record_by_its_own_subject() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    let (own, another) = (identity.issuer.issue("alice"), identity.issuer.issue("bob"));
    let path = |tail: &str| format!("/internal/identity/{tail}");
    for (method, path, body, opens_itself) in [
        (Method::GET, path("users/alice"), json!(null), true),
        (Method::POST, path("users/lookup"), json!({ "kcSubs": ["alice"] }), false),
        (Method::POST, path("users/resolve"), json!({ "names": ["alice"] }), false),
        (Method::GET, path("service-accounts/crm-backend"), json!(null), false),
    ] {
        let call = || {
            let call = identity.api.call(method.clone(), &path);
            if body.is_null() { call } else { call.json(body.clone()) }
        };
        let ask = async |call: testkit::Call| {
            let reply = identity.checked(method.as_str(), &path, call).await;
            (reply.status, reply.code().to_owned())
        };
        let refused = |status, code: &str| (status, code.to_owned());
        assert_eq!(ask(call()).await, refused(401, "AUTH_TOKEN_MISSING"), "{path}");
        let wrong = call().bearer(&own).header("x-platform-service", &OPERATOR[1..]);
        assert_eq!(ask(wrong).await, refused(401, "AUTH_TOKEN_INVALID"), "{path}");
        let elses = if opens_itself { refused(403, "FORBIDDEN") } else { refused(401, "AUTH_TOKEN_INVALID") };
        assert_eq!(ask(call().bearer(&another)).await, elses, "{path}");
        assert_eq!(ask(call().bearer(&own)).await.0, if opens_itself { 200 } else { 401 }, "{path}");
        for open in [call().service(), call().bearer(OPERATOR)] {
            assert_eq!(ask(open).await.0, 200, "{path}");
        }
    }
}
