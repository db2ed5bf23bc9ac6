//! The stub, the client and the token issuer together.

use contract::Clock;
use serde_json::json;
use testkit::{Api, Stub, TokenIssuer};
use tokio_util::sync::CancellationToken;

#[expect(clippy::expect_used, reason = "the stub gives an address")]
fn api(stub: &Stub) -> Api {
    let address = stub.url();
    Api::at(address.trim_start_matches("http://").parse().expect("an address"))
}

#[tokio::test]
async fn the_stub_answers_as_told_and_records() {
    let stub = Stub::start().await;
    stub.answer("POST", "/things", 201, json!({ "data": { "id": 1 } }));
    stub.answer_with("GET", "/things/*", |request| (200, json!({ "path": request.path })));
    let api = api(&stub);

    let made = api.post("/things?dry=1").bearer("t").json(json!({ "code": "A" })).send().await;
    assert_eq!((made.status, made.data()), (201, &json!({ "id": 1 })));
    assert_eq!(api.get("/things/7").send().await.body, json!({ "path": "/things/7" }));
    let unknown = api.delete("/things").send().await;
    assert_eq!((unknown.status, unknown.code()), (404, "NOT_FOUND"));

    let requests = stub.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!((requests[0].query.as_str(), &requests[0].body), ("dry=1", &json!({ "code": "A" })));
    assert_eq!(requests[0].headers["authorization"], "Bearer t");
}

#[tokio::test]
async fn the_stub_keeps_a_body_byte_for_byte_and_answers_with_any_headers_and_bytes() {
    let stub = Stub::start().await;
    stub.respond_with("POST", "/raw", |request| {
        let length = request.raw.len().to_string();
        let response =
            http::Response::builder().status(429).header("retry-after", "7").header("x-length", length);
        response.body(bytes::Bytes::from_static(b"\xff\x00ok")).expect("a response")
    });
    // Neither JSON nor UTF-8, with white space that a JSON parser would not keep.
    for body in [&b"{ \"a\":  1 }\r\n"[..], b"\xfe\xff\x00", b""] {
        let reply = api(&stub).post("/raw").body(body.to_vec()).send().await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, "7"));
        assert_eq!(reply.header("x-length"), body.len().to_string());
        assert_eq!(stub.requests().last().expect("recorded").raw, body);
    }
}

#[tokio::test]
async fn the_stub_hangs_and_breaks_off() {
    let stub = Stub::start().await;
    stub.hang("GET", "/hang");
    stub.close("GET", "/close");
    let api = api(&stub);
    assert!(api.get("/close").try_send().await.is_err());
    let hanging =
        tokio::time::timeout(std::time::Duration::from_millis(200), api.get("/hang").try_send()).await;
    assert!(hanging.is_err(), "no answer came");
}

#[tokio::test]
async fn a_verifier_accepts_what_is_right_and_refuses_what_is_wrong() {
    let issuer = TokenIssuer::start().await;
    let settings = issuer.settings();
    let mut reader = settings.reader();
    let config = bearer::BearerConfig::read(&mut reader);
    let verifier = bearer::Verifier::start(config, Clock::system(), CancellationToken::new());
    while !verifier.keys_loaded() {
        tokio::task::yield_now().await;
    }
    let claims = verifier.verify(&issuer.service_account("s-1", "crm-backend")).await.expect("a right token");
    assert_eq!((claims.subject.as_str(), claims.is_service_account()), ("s-1", true));
    for (wrong, token) in [
        ("expired", issuer.token("s").expires_in(-600)),
        ("another audience", issuer.token("s").claim("aud", "account")),
        ("another issuer", issuer.token("s").claim("iss", "https://evil.test")),
        ("no subject", issuer.token("s").claim("sub", serde_json::Value::Null)),
        ("another key id", issuer.token("s").header("kid", "other")),
    ] {
        assert!(verifier.verify(&token.sign()).await.is_err(), "{wrong}");
    }
}
