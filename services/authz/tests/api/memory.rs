//! The memory engine over its feed: an answer includes everything committed before its question, by any writer; a log
//! that cannot be read in time gives 503; a database with another history is reloaded.

use std::time::{Duration, Instant};

use authz::operate;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::app::{App, Rows, evidence, in_company, with};
use crate::can::with_crm;

fn on_deal(company: contract::id::CompanyId) -> Value {
    with(in_company(company), json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }))
}

/// The value of a metric.
pub(crate) async fn metric(app: &App, name: &str) -> f64 {
    let text = app.api.get("/metrics").send().await.text;
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).expect("the family");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[tokio::test]
async fn what_any_role_commits_is_in_the_next_answer() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@group:g#member", "grant").await;
    let org = Rows(app.database.pool_as("org"));
    for _ in 0..20 {
        org.tuple("group:g#member@user:alice", "org").await;
        assert_eq!(app.reason("alice", on_deal(company)).await, "ALLOWED");
        org.run("DELETE FROM authz.tuple WHERE object_type = 'group'").await;
        assert_eq!(app.reason("alice", on_deal(company)).await, "ENGINE_DENIED");
    }
    assert!(metric(&app, "platform_authz_feed_changes_total").await >= 40.0);
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_seen_when_it_commits() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    let mut late = app.owner.begin().await.expect("a transaction");
    sqlx::query("INSERT INTO authz.tuple VALUES ('crm_deal', '1', 'viewer', 'user', 'alice', '', 'grant')")
        .execute(&mut *late)
        .await
        .expect("a tuple");
    // Others commit after it began, and the reader reads past it.
    for id in 2..5 {
        rows.tuple(&format!("crm_deal:{id}#viewer@user:alice"), "grant").await;
        assert_eq!(app.reason("alice", on_deal(company)).await, "ENGINE_DENIED");
    }
    late.commit().await.expect("a commit");
    assert_eq!(app.reason("alice", on_deal(company)).await, "ALLOWED");
}

#[tokio::test]
async fn a_batch_finds_companies_by_anchors_that_memory_had_not_seen() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let body = json!({ "items": [{ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }] });
    let path = "/internal/authz/effective-access/batch-can";
    let reply = app.ask("POST", path, "alice", Some(body)).await;
    assert_eq!(reply.data()[0]["decision"]["reason"], "ALLOWED", "{}", reply.text);
}

/// While the statement is blocked, every answer is 503; the first answer after it includes a revoke committed
/// meanwhile.
#[tokio::test]
async fn a_feed_that_does_not_answer_allows_nothing() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    assert_eq!(app.reason("alice", on_deal(company)).await, "ALLOWED");
    let mut holding = app.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE identity.provider_look IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *holding)
        .await
        .expect("held");
    rows.run("DELETE FROM authz.tuple WHERE object_id = '1' AND relation = 'viewer'").await;
    let (begun, mut refused) = (Instant::now(), 0_u32);
    while begun.elapsed() < Duration::from_secs(super::journal::number("AUTHZ_HOLD_SECONDS", 2)) {
        let asked = Instant::now();
        let reply = app.can("alice", on_deal(company)).await;
        assert_eq!(reply.status, 503, "{}", reply.text);
        assert_eq!(reply.body["error"]["details"]["dependency"], "postgres");
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
        refused += 1;
    }
    holding.rollback().await.expect("let go");
    assert_eq!(app.reason("alice", on_deal(company)).await, "ENGINE_DENIED");
    crate::cases::told(&format!("held for {:?}: {refused} answers, all 503", begun.elapsed()));
}

#[tokio::test]
async fn another_epoch_is_loaded_anew_and_no_old_tuple_is_believed() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    assert_eq!(app.reason("alice", on_deal(company)).await, "ALLOWED");
    // As after a restore: rows change without the log.
    rows.run(
        "ALTER TABLE authz.tuple DISABLE TRIGGER USER; DELETE FROM authz.tuple WHERE relation = 'viewer';
        ALTER TABLE authz.tuple ENABLE TRIGGER USER",
    )
    .await;
    let mut owner = PgConnection::connect_with(&app.database.owner_options()).await.expect("a connection");
    operate::rebuild(&mut owner, "tester").await.expect("a new epoch");
    loop {
        let reply = app.can("alice", on_deal(company)).await;
        match reply.status {
            503 => tokio::task::yield_now().await,
            200 => break assert_eq!(reply.data()["reason"], "ENGINE_DENIED", "{}", reply.text),
            other => panic!("{other}: {}", reply.text),
        }
    }
    while metric(&app, "platform_authz_memory_loaded").await < 1.0 {
        tokio::task::yield_now().await;
    }
    let decided = app.can("alice", on_deal(company)).await;
    assert_eq!(evidence(&decided.data()["evidence"], "relation"), "viewer not held");
}

/// Enough changes for a new base, read while it is being built.
#[tokio::test]
async fn a_new_base_loses_nothing() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    for round in 0..6 {
        rows.run(format!(
            "INSERT INTO authz.tuple SELECT 'crm_deal', 'm' || n, 'viewer', 'user', 'u{round}', '', 'grant'
               FROM generate_series(1, 3000) n"
        ))
        .await;
        rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
        assert_eq!(app.reason("alice", on_deal(company)).await, "ALLOWED", "{round}");
        rows.run("DELETE FROM authz.tuple WHERE object_id = '1' AND subject_id = 'alice'").await;
        assert_eq!(app.reason("alice", on_deal(company)).await, "ENGINE_DENIED", "{round}");
    }
    let stored: i64 =
        sqlx::query_scalar("SELECT count(*) FROM authz.tuple").fetch_one(&app.owner).await.expect("a count");
    let stored = f64::from(i32::try_from(stored).expect("few"));
    assert!((metric(&app, "platform_authz_tuples").await - stored).abs() < 0.5);
}

#[tokio::test]
async fn the_first_decision_is_made_by_sql_too_and_they_agree() {
    let (app, _, company) = with_crm(&["alice"]).await;
    assert_eq!(app.reason("alice", on_deal(company)).await, "ENGINE_DENIED");
    let compared = async || metric(&app, "platform_authz_selfcheck_total").await;
    tokio::time::timeout(Duration::from_secs(20), async {
        while compared().await < 1.0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("compared");
    assert!(metric(&app, "platform_authz_selfcheck_mismatch_total").await < 0.5);
}
