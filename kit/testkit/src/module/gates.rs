//! What every operation of every module must refuse, and in which order: bearer, company, decision. A refused call
//! leaves no trace in the database, and a call whose decision could not be asked whole is refused.

use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{CAN, CORRELATION, ModuleApi, SUBJECT};
use crate::Reply;

/// One operation and the decision that it must ask.
#[derive(Clone, Debug)]
pub struct Operation {
    /// `GET`, …
    pub method: &'static str,
    /// What follows `/companies/<company>`.
    pub tail: String,
    /// A good body, where it has one.
    pub body: Option<Value>,
    /// Feature key of the decision.
    pub feature: &'static str,
    /// Relation of the decision.
    pub relation: &'static str,
    /// Whether a platform operator passes.
    pub operator: bool,
}

/// Runs all checks; the database must not change over any of them.
///
/// # Panics
/// The operation does not refuse as it must.
pub async fn check(module: &ModuleApi, operation: &Operation) {
    let before = module.contents().await;
    without_a_good_bearer(module, operation).await;
    with_a_malformed_company(module, operation).await;
    with_a_denial(module, operation).await;
    without_a_whole_decision(module, operation).await;
    assert_eq!(module.contents().await, before, "a refused call leaves no trace");
}

async fn without_a_good_bearer(module: &ModuleApi, operation: &Operation) {
    let asked = module.questions().len();
    let good = module.issuer.issue(SUBJECT);
    let expired = module.issuer.token(SUBJECT).expires_in(-600).sign();
    let foreign = module.issuer.token(SUBJECT).claim("aud", json!(["account"])).sign();
    let nobody = module.issuer.token(SUBJECT).claim("sub", Value::Null).sign();
    for (token, code) in [
        (None, "AUTH_TOKEN_MISSING"),
        (Some("Basic YTpi".to_owned()), "AUTH_TOKEN_MISSING"),
        (Some("Bearer x.y.z".to_owned()), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {good}x")), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {expired}")), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {foreign}")), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {nobody}")), "AUTH_TOKEN_INVALID"),
    ] {
        let path = module.path(module.company, &operation.tail);
        let mut call = module.api.call(method(operation), path).json(body(operation));
        if let Some(token) = &token {
            call = call.header(AUTHORIZATION.as_str(), token);
        }
        let reply = module.send(operation.method, &operation.tail, call).await;
        assert_eq!((reply.status, reply.code()), (401, code), "{token:?}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
    }
    assert_eq!(module.questions().len(), asked, "without a bearer nothing is asked");
}

async fn with_a_malformed_company(module: &ModuleApi, operation: &Operation) {
    let asked = module.questions().len();
    for company in ["x", "0192f0c1-5d3e-7a10-8c11", "0192f0c15d3e7a108c112f6a4d9b1a01", "%00"] {
        let call = module.call(operation.method, &module.path(company, &operation.tail));
        let reply = module.send(operation.method, &operation.tail, call.json(body(operation))).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{company}");
    }
    assert_eq!(module.questions().len(), asked, "without a company nothing is asked");
}

#[expect(clippy::panic, reason = "the test whose operation asked something else has failed")]
async fn with_a_denial(module: &ModuleApi, operation: &Operation) {
    let seen = module.authz.requests().len();
    module.decide(|_| false);
    let reply = ask(module, operation).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
    let details =
        json!({ "reason": "ENGINE_DENIED", "featureKey": operation.feature, "relation": operation.relation });
    assert_eq!(detail(&reply, ""), Some(&details));
    let questions = module.authz.requests().split_off(seen);
    let [question] = questions.as_slice() else { panic!("one decision, not {questions:?}") };
    let expected = module.question(operation.feature, operation.relation, operation.operator);
    assert_eq!(question.body, expected);
    let sent = question.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    assert!(sent.is_some_and(|value| value.starts_with(b"Bearer ")), "the user's own bearer");
    assert_eq!(
        question.headers.get("x-correlation-id").map(HeaderValue::as_bytes),
        Some(CORRELATION.as_bytes())
    );
    module.decide(|_| true);
}

async fn without_a_whole_decision(module: &ModuleApi, operation: &Operation) {
    let decision = |allowed: bool, reason: &str| json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } });
    for (status, answer) in [
        (500, decision(true, "ALLOWED")),
        (503, json!({ "error": { "code": "AUTHORIZATION_UNAVAILABLE", "message": "", "details": null } })),
        (401, json!({ "error": { "code": "AUTH_TOKEN_INVALID", "message": "", "details": null } })),
        (400, decision(true, "ALLOWED")),
        (201, decision(true, "ALLOWED")),
        (200, json!("garbage")),
        (200, Value::Null),
        (200, json!({})),
        (200, json!({ "data": {} })),
        (200, json!({ "data": { "allowed": true } })),
        (200, json!({ "allowed": true, "reason": "ALLOWED", "evidence": [] })),
        (200, decision(true, "ENGINE_DENIED")),
        (200, decision(false, "ALLOWED")),
        (200, decision(true, "A_REASON_OF_TOMORROW")),
    ] {
        let shown = format!("{status} {answer}");
        module.authz.answer("POST", CAN, status, answer);
        refused_for(&ask(module, operation).await, "authz", &shown);
    }
    module.authz.close("POST", CAN);
    refused_for(&ask(module, operation).await, "authz", "a closed connection");
    module.authz.hang("POST", CAN);
    refused_for(&ask(module, operation).await, "authz", "no answer");
    module.decide(|_| true);
}

/// A call that is denied is refused before the database is asked, and one that is allowed says that it cannot be.
///
/// # Panics
/// The operation does not refuse as it must.
pub async fn check_without_database(module: &ModuleApi, operation: &Operation) {
    module.decide(|_| false);
    let reply = ask(module, operation).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"), "the decision comes first");
    module.decide(|_| true);
    refused_for(&ask(module, operation).await, "postgres", "no database");
}

/// The answer is 503 and names the dependency.
///
/// # Panics
/// It is not.
pub fn refused_for(reply: &Reply, dependency: &str, when: &str) {
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{when}: {}", reply.text);
    assert_eq!(detail(reply, "/dependency"), Some(&Value::from(dependency)), "{when}");
}

/// A member of the error's details.
fn detail<'a>(reply: &'a Reply, pointer: &str) -> Option<&'a Value> {
    reply.body.pointer(&format!("/error/details{pointer}"))
}

async fn ask(module: &ModuleApi, operation: &Operation) -> Reply {
    module.ask(operation.method, &operation.tail, operation.body.clone()).await
}

#[expect(clippy::expect_used, reason = "the methods of a test are constants")]
fn method(operation: &Operation) -> http::Method {
    operation.method.parse().expect("a method")
}

fn body(operation: &Operation) -> Value {
    operation.body.clone().unwrap_or_default()
}
