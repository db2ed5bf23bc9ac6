//! Access to names: services and operators by their credentials, and bearers by authz's decision.

use http::Method;
use serde_json::{Value, json};

use crate::support::{DIRECTORY, OPERATOR, Org, role};

/// The reads that return names of a company's members.
fn reads(company: &str) -> [(Method, String, Value); 4] {
    let path = |tail: &str| format!("/internal/org/companies/{company}/{tail}");
    let wanted = json!({ "memberIds": [], "positionIds": [], "groupIds": [] });
    [
        (Method::GET, path("members"), Value::Null),
        (Method::POST, path("lookup"), wanted),
        (Method::GET, path("assignables/positions"), Value::Null),
        (Method::GET, path("assignables/groups"), Value::Null),
    ]
}

#[tokio::test]
async fn names_are_for_services_operators_and_whom_authz_opens_the_directory() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let alice = org.issuer.issue("alice");
    for (method, path, body) in reads(&company) {
        let call = || {
            let call = org.api.call(method.clone(), &path);
            if body.is_null() { call } else { call.json(body.clone()) }
        };
        let ask = async |call: testkit::Call| {
            let reply = org.checked(method.as_str(), &path, call).await;
            (reply.status, reply.code().to_owned())
        };
        let refused = |status, code: &str| (status, code.to_owned());
        assert_eq!(ask(call()).await, refused(401, "AUTH_TOKEN_MISSING"), "{path}");
        assert_eq!(ask(call().bearer("x")).await, refused(401, "AUTH_TOKEN_INVALID"), "{path}");
        let wrong = call().bearer(&alice).header("x-platform-service", "not-the-services-credential");
        assert_eq!(ask(wrong).await, refused(401, "AUTH_TOKEN_INVALID"), "{path}");
        for open in [call().service(), call().bearer(OPERATOR)] {
            assert_eq!(ask(open).await.0, 200, "{path}");
        }
        assert_eq!(ask(call().bearer(&alice)).await.0, 200, "{path}: authz allows it");
        org.authz.answer("GET", DIRECTORY, 200, role(false, "COMPANY_MEMBERSHIP_REQUIRED"));
        assert_eq!(ask(call().bearer(&alice)).await, refused(403, "FORBIDDEN"), "{path}");
        org.authz.answer("GET", DIRECTORY, 500, json!({}));
        assert_eq!(ask(call().bearer(&alice)).await, refused(503, "AUTHORIZATION_UNAVAILABLE"), "{path}");
        assert_eq!(ask(call().service()).await.0, 200, "{path}: a service asks authz itself");
        org.authz.answer("GET", DIRECTORY, 200, role(true, "ALLOWED"));
    }
    let asked = org.authz.requests().into_iter().filter(|asked| asked.path.contains("/directory/"));
    for asked in asked {
        assert_eq!(asked.path, format!("/internal/authz/directory/{company}/alice"));
        assert_eq!(
            asked.headers.get("authorization"),
            Some(&format!("Bearer {alice}").parse().expect("text"))
        );
        assert_eq!(asked.headers.get("x-platform-service"), Some(&testkit::SERVICE.parse().expect("text")));
    }
}

#[tokio::test]
async fn a_bearer_opens_its_own_subjects_place_and_companies_and_nobody_elses() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    org.link(&org.member(&company, "m").await, "alice").await;
    org.account("alice").await;
    let context = format!("/internal/org/companies/{company}/members/by-kcsub/alice/context");
    for (path, field) in
        [(context.as_str(), "memberId"), ("/internal/org/me/companies?kcSub=alice", "/0/code")]
    {
        let ask = async |call: testkit::Call| org.checked("GET", path, call).await;
        let told = |reply: &testkit::Reply| {
            let data = reply.data();
            (data.get(field).or_else(|| data.pointer(field))).is_some_and(|value| !value.is_null())
        };
        let bare = ask(org.api.get(path)).await;
        assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"), "{path}");
        let another = ask(org.api.get(path).bearer(&org.issuer.issue("bob"))).await;
        assert_eq!((another.status, another.code()), (403, "FORBIDDEN"), "{path}");
        let own = org.api.get(path).bearer(&org.issuer.issue("alice"));
        for open in [own, org.api.get(path).service(), org.api.get(path).bearer(OPERATOR)] {
            assert!(told(&ask(open).await), "{path}");
        }
    }
}

#[tokio::test]
async fn a_membership_is_told_without_a_credential_and_names_nobody() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    org.link(&member, "alice").await;
    let path = format!("/internal/org/companies/{company}/members/by-kcsub/alice");
    let told = org.checked("GET", &path, org.api.get(&path)).await;
    assert_eq!(told.data(), &json!({ "isMember": true, "isActive": true, "memberId": member }));
}
