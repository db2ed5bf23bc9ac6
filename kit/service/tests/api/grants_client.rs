//! The grants client: what it sends, how it maps each answer, and its limits.

use contract::decision::ObjectRef;
use contract::grants::{MAX_TUPLES, Op, Tuple};
use contract::id::CompanyId;
use contract::{CorrelationId, Subject};
use serde_json::{Value, json};
use service::clients::authz::AuthzClient;
use service::clients::grants::GrantRefused;
use service::operation::Operation;
use service::{ApiError, Caller, CompanyCall, Feature, Inside, PathParams};
use testkit::Stub;

const GRANTS: &str = "/internal/authz/grants";
const LOOKUP: &str = "/internal/authz/tuples/lookup";

struct Asked {
    authz: Stub,
    client: AuthzClient,
    call: CompanyCall,
}

/// A call of a route without parameters.
fn call() -> CompanyCall {
    let feature = Feature::of_module("demo.deals.share", "admin");
    CompanyCall {
        caller: Caller {
            subject: Subject::parse("alice").expect("a subject"),
            authorized_party: None,
            token: "a.bearer.token".to_owned(),
        },
        company: CompanyId::mint(),
        correlation: CorrelationId::accept(Some(b"request-1")),
        path: PathParams::default(),
        operation: Operation::post("/deals", "shareDeal", feature),
        feature,
    }
}

async fn asked() -> Asked {
    let authz = Stub::start().await;
    let client = AuthzClient::new(&authz.url(), &Inside::of(Some(testkit::SERVICE), None));
    Asked { authz, client, call: call() }
}

fn deal(id: &str) -> ObjectRef {
    ObjectRef { kind: "crm_deal".to_owned(), id: id.to_owned() }
}

fn tuples(count: usize) -> Vec<Tuple> {
    let alice = Subject::parse("alice").expect("a subject");
    (0..count).map(|number| Tuple::user(deal(&number.to_string()), "viewer", &alice)).collect()
}

fn done(status: &str, count: usize, changed: &[&str]) -> Value {
    json!({ "data": { "status": status, "count": count, "changed": changed.len(), "tuples": changed } })
}

/// Status, code and first detail of a refusal; `None` when authz did not answer.
fn refusal(refused: &GrantRefused) -> Option<(u16, &'static str, Value)> {
    let GrantRefused::Refused(error) = refused else { return None };
    let parts = error.parts();
    Some((parts.status.as_u16(), parts.code, parts.details))
}

#[tokio::test]
async fn a_change_goes_with_the_bearer_and_tells_what_changed() {
    let asked = asked().await;
    asked.authz.answer("POST", GRANTS, 200, done("granted", 2, &["crm_deal:0#viewer@user:alice"]));
    let changed = asked.client.change(&asked.call, Op::Grant, &tuples(2)).await.expect("changed");
    assert_eq!((changed.count, changed.tuples), (2, vec!["crm_deal:0#viewer@user:alice".to_owned()]));
    asked.authz.answer("POST", GRANTS, 200, done("revoked", 1, &[]));
    let changed = asked.client.change(&asked.call, Op::Revoke, &tuples(1)).await.expect("changed");
    assert_eq!((changed.count, changed.tuples), (1, vec![]), "repeated");
    let requests = asked.authz.requests();
    let sent = requests.first().expect("a request");
    assert_eq!(sent.headers.get("authorization"), Some(&"Bearer a.bearer.token".parse().expect("a header")));
    assert_eq!(sent.headers.get("x-correlation-id"), Some(&"request-1".parse().expect("a header")));
    let tuple = |id: &str| {
        json!({ "objectType": "crm_deal", "objectId": id, "relation": "viewer", "subjectType": "user",
            "subjectId": "alice" })
    };
    let expected = json!({ "op": "grant", "companyId": asked.call.company, "correlationId": "request-1",
        "tuples": [tuple("0"), tuple("1")] });
    assert_eq!(sent.body, expected);
}

#[tokio::test]
async fn a_refusal_of_authz_passes_on_and_anything_else_is_no_answer() {
    let asked = asked().await;
    let error = |code: &str, details: Value| json!({ "error": { "code": code, "message": "no", "details": details } });
    let denied = json!({ "reason": "ENGINE_DENIED", "moduleKey": "crm" });
    let fields = json!({ "fields": [{ "path": "tuples[0].subjectId", "rule": "anchor", "message": "x" }] });
    for (status, body, expected) in [
        (403, error("AUTHORIZATION_DENIED", denied.clone()), Some((403, "AUTHORIZATION_DENIED", denied))),
        (422, error("VALIDATION_FAILED", fields.clone()), Some((422, "VALIDATION_FAILED", fields))),
        (401, error("AUTH_TOKEN_INVALID", json!({})), Some((401, "AUTH_TOKEN_INVALID", Value::Null))),
        (400, error("VALIDATION_ERROR", json!({})), Some((500, "INTERNAL_ERROR", Value::Null))),
        (413, error("PAYLOAD_TOO_LARGE", json!({})), Some((500, "INTERNAL_ERROR", Value::Null))),
        (403, json!("a proxy's page"), None),
        (500, error("INTERNAL_ERROR", json!({})), None),
        (503, error("AUTHORIZATION_UNAVAILABLE", json!({})), None),
        (204, Value::Null, None),
        (200, json!({ "data": {} }), None),
        (200, done("revoked", 1, &[]), None),
        (200, done("granted", 2, &[]), None),
    ] {
        asked.authz.answer("POST", GRANTS, status, body.clone());
        let refused = asked.client.change(&asked.call, Op::Grant, &tuples(1)).await.expect_err("refused");
        assert_eq!(refusal(&refused), expected, "{status} {body}");
        let told = ApiError::from(refused).parts();
        assert_eq!(told.status.as_u16(), expected.map_or(503, |expected| expected.0), "{status} {body}");
    }
    asked.authz.close("POST", GRANTS);
    let refused = asked.client.change(&asked.call, Op::Grant, &tuples(1)).await.expect_err("refused");
    assert_eq!(refusal(&refused), None);
}

#[tokio::test]
async fn no_answer_within_the_budget_is_unavailable() {
    let asked = asked().await;
    asked.authz.hang("POST", GRANTS);
    let refused = asked.client.change(&asked.call, Op::Grant, &tuples(1)).await.expect_err("refused");
    assert!(refused.to_string().contains("no answer within 1.5s"), "{refused}");
    assert_eq!(ApiError::from(refused).parts().details["dependency"], "authz");
}

#[tokio::test]
async fn what_the_route_does_not_take_is_not_sent() {
    let asked = asked().await;
    let whole = |request: &testkit::Recorded| {
        let count = request.body["tuples"].as_array().map_or(0, Vec::len);
        (200, done("granted", count, &[]))
    };
    asked.authz.answer_with("POST", GRANTS, whole);
    asked.client.change(&asked.call, Op::Grant, &tuples(MAX_TUPLES)).await.expect("at the limit");
    // 1,000 tuples of 1,049 bytes each exceed 1 MiB; with one byte less each, they do not.
    let wide = |bytes: usize| vec![Tuple { object_id: "x".repeat(bytes), ..tuples(1).remove(0) }; MAX_TUPLES];
    let frame = serde_json::to_vec(&wide(0)).expect("JSON").len();
    let room = ((1 << 20) - frame - 200) / MAX_TUPLES;
    asked.client.change(&asked.call, Op::Grant, &wide(room)).await.expect("at the limit");
    let sent = asked.authz.requests().len();
    for too_many in [vec![], tuples(MAX_TUPLES + 1), wide(room + 1)] {
        let refused = asked.client.change(&asked.call, Op::Grant, &too_many).await.expect_err("refused");
        assert_eq!(refusal(&refused).map(|refusal| refusal.0), Some(500), "{}", too_many.len());
        assert!(asked.client.standing(&too_many, &asked.call.correlation).await.is_err());
    }
    assert_eq!(asked.authz.requests().len(), sent);
}

#[tokio::test]
async fn a_lookup_tells_of_each_tuple_and_needs_no_bearer() {
    let asked = asked().await;
    asked.authz.answer("POST", LOOKUP, 200, json!({ "data": { "standing": [true, false] } }));
    let standing = asked.client.standing(&tuples(2), &asked.call.correlation).await.expect("an answer");
    assert_eq!(standing, [true, false]);
    let requests = asked.authz.requests();
    assert_eq!(requests.first().and_then(|request| request.headers.get("authorization")), None);
    for (status, body) in [
        (200, json!({ "data": { "standing": [true] } })),
        (200, json!({ "standing": [true, false] })),
        (503, json!({})),
        (403, json!({})),
    ] {
        asked.authz.answer("POST", LOOKUP, status, body);
        assert!(asked.client.standing(&tuples(2), &asked.call.correlation).await.is_err(), "{status}");
    }
}
