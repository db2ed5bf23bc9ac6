//! A request that cannot be decided is 503 with the dependency, the step and the evidence; never an allow or a denial.

use authz::decision::{self, Undecided};
use contract::Subject;
use contract::decision::AccessRequest;
use contract::fields::parse;
use serde_json::{Value, json};
use testkit::Reply;

use crate::app::{App, engine, evidence, in_company, with};

fn refused(reply: &Reply, dependency: &str, step: usize) {
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{}", reply.text);
    let details = &reply.body["error"]["details"];
    assert_eq!(details["dependency"], dependency, "{details}");
    assert_eq!(details["step"], step, "{details}");
    assert_eq!(details["reason"], "DEPENDENCY_UNAVAILABLE");
    assert_eq!(evidence(&details["evidence"], "featureKey"), "crm.deals.read");
}

#[tokio::test]
async fn a_look_at_the_provider_that_is_old_or_missing_or_in_the_future_is_503_at_step_two() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.look(301).await;
    refused(&app.can("root", in_company(company)).await, "idp", 2);
    rows.look(290).await;
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    rows.look(-3_600).await;
    refused(&app.can("root", in_company(company)).await, "idp", 2);
    rows.look(0).await;
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    rows.run("DELETE FROM identity.provider_look").await;
    refused(&app.can("root", in_company(company)).await, "idp", 2);
    assert_eq!(
        app.reason("stranger", in_company(company)).await,
        "AUTH_USER_NOT_FOUND",
        "step 1 needs no look"
    );
    let denied: Vec<Value> =
        app.audit().await.into_iter().map(|row| row["payload"]["reason"].clone()).collect();
    let membership = "COMPANY_MEMBERSHIP_REQUIRED";
    assert_eq!(denied, [membership, membership, "AUTH_USER_NOT_FOUND"], "a 503 is not a denial");
}

#[tokio::test]
async fn facts_that_cannot_be_read_are_503_at_step_one() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    for view in ["identity.subject_facts", "org.company_facts", "org.member_facts", "registry.module_facts"] {
        rows.run(format!("REVOKE SELECT ON {view} FROM platform_authz")).await;
        refused(&app.can("root", in_company(company)).await, "postgres", 1);
        rows.run(format!("GRANT SELECT ON {view} TO platform_authz")).await;
    }
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED", "it heals");
}

#[tokio::test]
async fn a_statement_that_does_not_end_is_503_within_its_time() {
    let app = App::start().await;
    let company = app.rows().company().await;
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    let mut blocking = app.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE org.members IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *blocking)
        .await
        .expect("a lock");
    let begun = std::time::Instant::now();
    refused(&app.can("root", in_company(company)).await, "postgres", 1);
    assert!(begun.elapsed().as_millis() < 1_500, "{:?}", begun.elapsed());
    blocking.rollback().await.expect("a rollback");
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED", "it heals");
}

#[tokio::test]
async fn a_fragment_that_cannot_be_compiled_is_503() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.app("crm", &json!({ "crm_deal": { "company_module": { "this": false } } }), &["crm.deals.read"])
        .await;
    refused(&app.can("root", in_company(company)).await, "registry", 1);
}

/// A search that exceeds its budget answers neither yes nor no; what it found before counts.
#[tokio::test]
async fn a_search_past_its_budget_is_503() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    for subject in ["alice", "bob"] {
        rows.subject(subject).await;
        rows.member(company, subject).await;
    }
    let types = json!({ "crm_deal": { "company_module": { "this": true }, "viewer": { "this": true } } });
    rows.app("crm", &types, &["crm.deals.read"]).await;
    rows.tuple(&format!("crm_deal:0#company_module@company_module:{company}/crm"), "grant").await;
    for index in 0..20 {
        rows.tuple(&format!("crm_deal:{index}#viewer@crm_deal:{}#viewer", index + 1), "grant").await;
    }
    rows.tuple("crm_deal:3#viewer@user:alice", "grant").await;
    let request = with(
        in_company(company),
        json!({ "object": { "type": "crm_deal", "id": "0" }, "relation": "viewer" }),
    );
    let request: AccessRequest = parse(&request).expect("a request");
    let decide = async |subject: &str, budget| {
        let subject = Subject::parse(subject).expect("a subject");
        decision::decide(&engine(&app.database, budget), &subject, &request).await
    };
    assert!(decide("alice", 10).await.is_ok_and(|decision| decision.allowed), "found within the budget");
    assert!(
        matches!(decide("bob", 10).await, Err(Undecided::Unavailable { dependency: "engine", step: 7, .. })),
        "given up"
    );
    assert!(decide("bob", 100).await.is_ok_and(|decision| !decision.allowed), "searched to the end");
}
