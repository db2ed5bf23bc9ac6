//! What the extractors refuse, each with its own code and the name of the field.

use serde_json::json;

use crate::app::{BODY_LIMIT, TestApp};

#[tokio::test]
async fn a_path_id_is_a_uuid() {
    let app = TestApp::start().await;
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(app.api.get(format!("/things/{id}")).send().await.data(), id);
    for bad in ["x", "01890a5dac96774bbcceb302099a8057", "%00", "..%2f..", "%E4"] {
        let reply = app.api.get(format!("/things/{bad}")).send().await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{bad}: {}", reply.text);
    }
    let reply = app.api.get("/optional/x").send().await;
    assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn pages_are_refused_out_of_range_never_clamped() {
    let app = TestApp::start().await;
    assert_eq!(app.api.get("/list?pageSize=100").send().await.data(), 100);
    for bad in ["pageSize=101", "pageSize=0", "page=0", "page=x", "page=", "page=4294967296"] {
        let reply = app.api.get(format!("/list?{bad}")).send().await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{bad}");
    }
}

#[tokio::test]
async fn bodies_up_to_the_limit_and_one_byte_past_it() {
    let app = TestApp::start().await;
    let body = |length: usize| {
        let frame = r#"{"text":"a","x":""}"#.len();
        format!(r#"{{"text":"a","x":"{}"}}"#, "y".repeat(length - frame))
    };
    let send =
        |body: String| app.api.post("/echo").header("content-type", "application/json").body(body).send();
    assert_eq!(send(body(BODY_LIMIT)).await.status, 200);
    let reply = send(body(BODY_LIMIT + 1)).await;
    assert_eq!((reply.status, reply.code()), (413, "PAYLOAD_TOO_LARGE"));
    assert_eq!(reply.body["error"]["details"]["limitBytes"], BODY_LIMIT);
}

#[tokio::test]
async fn what_cannot_be_parsed_is_a_bad_request_and_wrong_fields_are_named() {
    let app = TestApp::start().await;
    let send = |kind: &str, body: &str| {
        app.api.post("/echo").header("content-type", kind).body(body.to_owned()).send()
    };
    for (kind, body) in [
        ("text/plain", r#"{"text":"a"}"#),
        ("application/json", "{"),
        ("application/json", ""),
        ("application/json", "[]"),
        ("application/json", "null"),
        ("application/json", "\"text\""),
        ("application/json", "{\"text\":\"\u{1}\"}"),
    ] {
        let reply = send(kind, body).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{kind} {body}");
    }
    for (body, path) in [
        (r"{}", "text"),
        (r#"{"text":7}"#, "text"),
        (r#"{"text":"a\u0000"}"#, "text"),
        (r#"{"text":"eleven char"}"#, "text"),
    ] {
        let reply = send("application/json; charset=utf-8", body).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{body}");
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], path, "{body}");
    }
    assert_eq!(send("Application/JSON", r#"{"text":"ten chars.","other":[1]}"#).await.data(), "ten chars.");
}

#[tokio::test]
async fn a_bearer_is_missing_invalid_or_one_of_two() {
    let app = TestApp::start().await;
    assert_eq!(app.api.get("/whoami").bearer(&app.token()).send().await.data(), "alice");
    let missing = app.api.get("/whoami").send().await;
    assert_eq!((missing.status, missing.code()), (401, "AUTH_TOKEN_MISSING"));
    assert_eq!(missing.header("www-authenticate"), "Bearer");
    let expired = app.issuer.token("alice").expires_in(-60).sign();
    for bad in ["x", &expired, &app.issuer.token("alice").claim("aud", "account").sign()] {
        let reply = app.api.get("/whoami").bearer(bad).send().await;
        assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_INVALID"));
        assert_eq!(reply.body["error"]["details"], json!(null));
    }
    let two = app.api.get("/whoami").bearer(&app.token()).bearer(&app.token()).send().await;
    assert_eq!((two.status, two.code()), (400, "BAD_REQUEST"));
}
