//! A bulk write: one commit of very many tuples is read in portions while SQL decides, so no decision waits for it or
//! is stale. `AUTHZ_BULK=250000` makes the write as large as the platform promises.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use authz::engine::SETTINGS;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row};
use testkit::until;

use crate::app::{App, Rows, in_company, with};
use crate::can::with_crm;
use crate::cases::told;
use crate::journal::number;
use crate::memory::metric;

/// The promised maximum time without a decision, on a machine that runs only this test.
const MAX_GAP: Duration = Duration::from_secs(1);
/// The limit beside other tests, which slow everything down. A decision that waits for the whole log still exceeds it
/// (10 s).
const MAX_GAP_BESIDE_OTHERS: Duration = Duration::from_secs(5);
/// Time limit for memory to catch up on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_mins(2);

/// Adds tuples with these numbers in one commit.
pub(crate) async fn add(rows: &Rows, numbers: RangeInclusive<u64>) {
    let (first, last) = numbers.into_inner();
    rows.run(format!(
        "INSERT INTO authz.tuple SELECT 'crm_deal', 'bulk' || n, 'viewer', 'user', 'u' || n, '', 'grant'
           FROM generate_series({first}, {last}) n"
    ))
    .await;
}

/// Asks continuously until memory holds as many tuples; returns the longest time without a decision, the number of
/// decisions and the number of wrong ones.
async fn decide_until(app: &App, body: &serde_json::Value, tuples: f64) -> (Duration, u64, u64) {
    let (begun, mut last, mut longest, mut answers, mut wrong) =
        (Instant::now(), Instant::now(), Duration::ZERO, 0, 0);
    while metric(app, "platform_authz_tuples").await < tuples {
        assert!(begun.elapsed() < PATIENCE, "memory does not catch up");
        for _ in 0..20 {
            let reply = app.can("alice", body.clone()).await;
            if reply.status == 200 {
                longest = longest.max(last.elapsed());
                last = Instant::now();
                answers += 1;
                wrong += u64::from(reply.data()["allowed"] != true);
            }
        }
    }
    (longest, answers, wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_go_on_through_a_bulk_write_and_none_is_stale() {
    let small = 60_000;
    let count = number("AUTHZ_BULK", small);
    let max_gap = if count == small { MAX_GAP_BESIDE_OTHERS } else { MAX_GAP };
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let body = with(
        in_company(company),
        json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }),
    );
    let before = metric(&app, "platform_authz_tuples").await;
    let tuples = before + f64::from(u32::try_from(count).expect("few"));
    let ((longest, answers, wrong), ()) =
        tokio::join!(decide_until(&app, &body, tuples), add(&rows, 1..=count));
    told(&format!(
        "{count} tuples in one commit: longest gap {longest:?}, {answers} decisions, {wrong} wrong"
    ));
    assert_eq!(wrong, 0);
    assert!(longest < max_gap, "{longest:?} without a decision");
    // Writes before and after it are visible at once, too.
    rows.run("DELETE FROM authz.tuple WHERE object_id = '1' AND subject_id = 'alice'").await;
    assert_eq!(app.reason("alice", body.clone()).await, "ENGINE_DENIED");
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    assert_eq!(app.reason("alice", body).await, "ALLOWED");
}

/// A tree needs the graph, so an explanation waits while memory catches up. Decisions do not: SQL answers them.
#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_waits_for_memory_that_catches_up() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let object = json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" });
    let body = with(in_company(company), object);
    let path = format!(
        "/internal/authz/effective-access/explain?companyId={company}&objectType=crm_deal&objectId=1&relation=viewer&subject=alice"
    );
    let mut transaction = rows.0.begin().await.expect("a transaction");
    sqlx::raw_sql("LOCK TABLE feed.change IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *transaction)
        .await
        .expect("locked");
    let is_loaded = async || metric(&app, "platform_authz_memory_loaded").await > 0.0;
    until("SQL decides", async || !is_loaded().await).await;
    let explain = app.ask("GET", &path, "root", None);
    let decide_and_unlock = async {
        assert_eq!(app.reason("alice", body).await, "ALLOWED", "control: decided while the log is locked");
        assert!(!is_loaded().await, "control: memory has not caught up");
        transaction.rollback().await.expect("unlocked");
    };
    let (explained, ()) = tokio::join!(explain, decide_and_unlock);
    assert_eq!(explained.status, 200, "{}", explained.text);
    assert_eq!(explained.data()["tree"]["held"], true);
}

/// The plan of a round of one question on a connection with these settings, where parallel workers cost nothing.
async fn plan(pool: &PgPool, settings: &[(&str, &str)]) -> String {
    let options = pool.connect_options().as_ref().clone().options(settings.iter().copied());
    let mut connection = PgConnection::connect_with(&options).await.expect("a connection");
    let round = include_str!("../../src/engine/feed/read_one.sql");
    let prepare = format!(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0;
         SET min_parallel_table_scan_size = 0;
         PREPARE q(text, text, uuid, text, text) AS {round}"
    );
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.expect("prepared");
    let explain = "EXPLAIN EXECUTE q(pg_current_snapshot()::text, 'alice', NULL, 'crm', 'crm.access')";
    let rows = sqlx::raw_sql(explain).fetch_all(&mut connection).await.expect("a plan");
    rows.iter().map(|row| row.get::<String, _>(0) + "\n").collect()
}

#[tokio::test]
async fn a_decision_after_a_bulk_write_starts_no_parallel_workers() {
    let database = testkit::database().await;
    let authz = database.pool_as("authz");
    add(&Rows(authz.clone()), 1..=20_000).await;
    let others: Vec<_> =
        SETTINGS.into_iter().filter(|(name, _)| *name != "max_parallel_workers_per_gather").collect();
    let parallel = plan(&authz, &others).await;
    assert!(parallel.contains("Gather"), "control: {parallel}");
    let alone = plan(&authz, &SETTINGS).await;
    assert!(!alone.contains("Gather") && alone.contains("Index Scan using change_pkey"), "{alone}");
}
