//! Restored databases: by `pg_dump` and `pg_restore` into another cluster or under a running authz, and by a copy of
//! the cluster's files. Whatever the log and the graph held before, every answer comes from the restored database.

use std::time::Duration;

use contract::id::CompanyId;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use testkit::TestDatabase;
use testkit::cluster::{OwnCluster, client_program};

use crate::app::{App, BETWEEN_LOOKS, Rows, in_company, with};
use crate::can::crm;
use crate::memory::metric;

/// Time limit for a database to come back and for a graph to load.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of questions before an answer is believed; each is a round of its own.
const ASKED: usize = 20;
pub(crate) const VIEWER: &str = "crm_deal:1#viewer@user:alice";
pub(crate) const NO_VIEWER: &str =
    "DELETE FROM authz.tuple WHERE object_type = 'crm_deal' AND relation = 'viewer'";

fn on_deal(company: CompanyId) -> Value {
    with(in_company(company), json!({ "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }))
}

/// Alice is a member of a company with deal 1, on which she holds nothing yet.
pub(crate) async fn world(database: &TestDatabase) -> CompanyId {
    let rows = Rows(database.owner_pool());
    rows.look(0).await;
    rows.subject("root").await;
    rows.tuple("system:platform#superadmin@user:root", "role").await;
    let company = rows.company().await;
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    rows.app("crm", &crm(), &["crm.deals.read"]).await;
    rows.defaults(company, "crm").await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    company
}

/// The next available answer; those after it must be the same.
pub(crate) async fn reason(app: &App, company: CompanyId) -> String {
    let first = tokio::time::timeout(PATIENCE, answer(app, company)).await.expect("it answers again");
    for asked in 1..ASKED {
        assert_eq!(answer(app, company).await, first, "question {asked}");
    }
    first
}

async fn answer(app: &App, company: CompanyId) -> String {
    loop {
        let reply = app.can("alice", on_deal(company)).await;
        if reply.status == 503 {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            continue;
        }
        assert_eq!(reply.status, 200, "{}", reply.text);
        return reply.data()["reason"].as_str().expect("a reason").to_owned();
    }
}

pub(crate) async fn until_loaded(app: &App) {
    let loaded = async {
        while metric(app, "platform_authz_memory_loaded").await < 1.0 {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    tokio::time::timeout(PATIENCE, loaded).await.expect("the graph is in memory again");
}

/// Checks that each grant and revocation shows in the next answer and in those after it.
pub(crate) async fn follows(app: &App, rows: &Rows, company: CompanyId) {
    until_loaded(app).await;
    for _ in 0..3 {
        rows.tuple(VIEWER, "grant").await;
        assert_eq!(reason(app, company).await, "ALLOWED");
        rows.run(NO_VIEWER).await;
        assert_eq!(reason(app, company).await, "ENGINE_DENIED");
    }
}

async fn burn(connection: &mut PgConnection, numbers: u32) {
    let burn = format!(
        "DO $$ BEGIN FOR n IN 1..{numbers} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(burn)).execute(connection).await.expect("transactions");
}

/// Dumps a database; returns false on a machine without `pg_dump`.
async fn dumped(database: &TestDatabase, file: &std::path::Path) -> bool {
    let Some(mut dump) = client_program("pg_dump", database).await else { return false };
    let done = dump.args(["--format", "custom", "--file"]).arg(file).output().await.expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    true
}

async fn restored(database: &TestDatabase, file: &std::path::Path, more: &[&str]) {
    let mut restore = client_program("pg_restore", database).await.expect("it is where pg_dump is");
    let done = restore.args(more).arg(file).output().await.expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn dump_file() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("authz-restore-{}.dump", uuid::Uuid::new_v4().simple()))
}

/// The old cluster's log has numbers that the new one reaches much later.
#[tokio::test]
async fn in_another_cluster_a_revocation_takes_effect_at_once_and_for_good() {
    let (source, file) = (testkit::database().await, dump_file());
    let mut owner = PgConnection::connect_with(&source.owner_options()).await.expect("a connection");
    burn(&mut owner, 20_000).await;
    let company = world(&source).await;
    Rows(source.owner_pool()).tuple(VIEWER, "grant").await;
    if !dumped(&source, &file).await {
        return;
    }
    let cluster = OwnCluster::start().await;
    cluster.database().await;
    let target = cluster.empty_database().await;
    restored(&target, &file, &[]).await;
    std::fs::remove_file(&file).expect("removed");
    let app = App::serve(target, "root").await;
    let rows = app.rows();
    rows.look(0).await;
    assert_eq!(reason(&app, company).await, "ALLOWED", "what was restored");
    rows.run(NO_VIEWER).await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    follows(&app, &rows, company).await;
    let foreign: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM feed.change WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())",
    )
    .fetch_one(&app.owner)
    .await
    .expect("the log");
    assert_eq!(foreign, 0, "the old cluster's log is gone");
}

/// Two processes read a database that returns to an earlier state in one transaction.
#[tokio::test]
async fn a_restore_under_running_processes_is_noticed_by_each() {
    let (database, file) = (testkit::database().await, dump_file());
    let company = world(&database).await;
    let apps = [App::serve(database.clone(), "root").await, App::serve(database.clone(), "root").await];
    let rows = apps[0].rows();
    if !dumped(&database, &file).await {
        return;
    }
    let whole = ["--clean", "--if-exists", "--single-transaction"].as_slice();
    let tuples_alone = ["--clean", "--if-exists", "--single-transaction", "--schema", "authz"].as_slice();
    for what in [whole, tuples_alone] {
        rows.tuple(VIEWER, "grant").await;
        for app in &apps {
            assert_eq!(reason(app, company).await, "ALLOWED", "{what:?}");
        }
        restored(&database, &file, what).await;
        for app in &apps {
            assert_eq!(reason(app, company).await, "ENGINE_DENIED", "{what:?}");
        }
        for app in &apps {
            follows(app, &rows, company).await;
        }
    }
    std::fs::remove_file(&file).expect("removed");
}

/// The files return to their state before the grant.
#[tokio::test]
async fn files_put_back_under_a_running_process_are_noticed() {
    let mut cluster = OwnCluster::start().await;
    let database = cluster.database().await;
    let company = world(&database).await;
    cluster.stop().await;
    let copy = cluster.save().await;
    cluster.resume().await;
    let app = App::serve(database, "root").await;
    app.rows().tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    cluster.stop().await;
    cluster.put_back(&copy).await;
    cluster.resume().await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    follows(&app, &app.rows(), company).await;
}

/// The same, but the transaction numbers pass the reader's cursor before it asks again.
#[tokio::test]
async fn files_put_back_are_noticed_though_the_numbers_have_caught_up() {
    let mut cluster = OwnCluster::start().await;
    let database = cluster.database().await;
    let company = world(&database).await;
    cluster.stop().await;
    let copy = cluster.save().await;
    cluster.resume().await;
    let app = App::serve(database.clone(), "root").await;
    app.rows().tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    cluster.stop().await;
    cluster.put_back(&copy).await;
    cluster.aside(&database, async |mut owner: PgConnection| burn(&mut owner, 2_000).await).await;
    cluster.resume().await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    follows(&app, &app.rows(), company).await;
}

/// A server that only restarted keeps its content.
#[tokio::test]
async fn a_database_that_was_only_started_anew_is_answered_from_as_before() {
    let mut cluster = OwnCluster::start().await;
    let database = cluster.database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    app.rows().tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    cluster.stop().await;
    cluster.resume().await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    follows_after_revoking(&app, company).await;
}

async fn follows_after_revoking(app: &App, company: CompanyId) {
    app.rows().run(NO_VIEWER).await;
    assert_eq!(reason(app, company).await, "ENGINE_DENIED");
    follows(app, &app.rows(), company).await;
}

/// Only a restore writes such a row.
#[tokio::test]
async fn a_row_of_a_transaction_that_is_yet_to_come_is_never_applied() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    rows.run(
        r#"INSERT INTO feed.change(xid, kind, op, row) VALUES ('4611686018427387904', 'tuple', 'I',
           '{"object_type":"crm_deal","object_id":"1","relation":"viewer","subject_type":"user","subject_id":"alice","subject_relation":""}')"#,
    )
    .await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    follows(&app, &rows, company).await;
}

/// The reader sleeps, for a moment by its own clock; meanwhile the log is pruned as after an hour.
#[tokio::test]
async fn a_cursor_below_the_trim_watermark_is_not_continued() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database.clone(), "root").await;
    let rows = app.rows();
    rows.tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run("REVOKE SELECT ON identity.provider_look FROM platform_authz").await;
    rows.run(NO_VIEWER).await;
    let authz = database.pool_as("authz");
    crate::feed::until_nothing_older_runs(&authz).await;
    let (mut pruner, begun) = (authz::feed::Pruner::default(), std::time::Instant::now());
    pruner.step(&authz, begun).await.expect("a step");
    assert!(pruner.step(&authz, begun + Duration::from_hours(1)).await.expect("a step") > 0);
    rows.run("GRANT SELECT ON identity.provider_look TO platform_authz").await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    follows(&app, &rows, company).await;
}

/// A partial restore leaves this state. SQL decides while the log is incomplete, until an operator repairs it.
#[tokio::test]
async fn tuples_that_write_no_log_are_not_followed_from_memory_and_a_rebuild_heals_them() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database.clone(), "root").await;
    let rows = app.rows();
    rows.tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run("ALTER TABLE authz.tuple DISABLE TRIGGER tuple_removed; SELECT feed.begin_anew()").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run(NO_VIEWER).await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    assert!(metric(&app, "platform_authz_memory_loaded").await < 1.0, "SQL decides");
    let mut owner = PgConnection::connect_with(&database.owner_options()).await.expect("a connection");
    authz::operate::rebuild(&mut owner, "tester").await.expect("a rebuild");
    follows(&app, &rows, company).await;
}

/// `pg_restore --disable-triggers` does this, and leaves it behind when it is interrupted.
#[tokio::test]
async fn tuples_that_changed_while_a_trigger_was_off_are_not_answered_from_memory() {
    const OFF: &str = "ALTER TABLE authz.tuple DISABLE TRIGGER USER";
    const ON: &str = "ALTER TABLE authz.tuple ENABLE TRIGGER USER";
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    follows(&app, &rows, company).await;
    rows.tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run(&format!("{OFF}; {NO_VIEWER}; {ON}")).await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED", "it is on again");
    follows(&app, &rows, company).await;
    rows.tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run(OFF).await;
    rows.run(NO_VIEWER).await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED", "it stays off");
    rows.run(ON).await;
    follows(&app, &rows, company).await;
}

/// Each trigger then has another transaction as its last change, which must not keep memory from deciding.
#[tokio::test]
async fn one_trigger_that_was_off_and_is_on_again_does_not_keep_the_graph_out_of_memory() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    for trigger in ["tuple_added", "tuple_removed", "tuple_changed", "tuple_truncated"] {
        rows.tuple(VIEWER, "grant").await;
        assert_eq!(reason(&app, company).await, "ALLOWED");
        rows.run(&format!("ALTER TABLE authz.tuple DISABLE TRIGGER {trigger}")).await;
        rows.run(NO_VIEWER).await;
        assert_eq!(reason(&app, company).await, "ENGINE_DENIED", "{trigger} is off");
        rows.run(&format!("ALTER TABLE authz.tuple ENABLE ALWAYS TRIGGER {trigger}")).await;
        follows(&app, &rows, company).await;
    }
}

/// A manual removal between a revocation and the next read of the log. The pruner's own removals cause no reload.
#[tokio::test]
async fn a_revocation_whose_row_was_removed_from_the_log_takes_effect() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database.clone(), "root").await;
    let rows = app.rows();
    let epoch = async || -> uuid::Uuid {
        sqlx::query_scalar("SELECT epoch FROM feed.epoch").fetch_one(&app.owner).await.expect("a row")
    };
    for removed in ["DELETE FROM feed.change", "TRUNCATE feed.change", "UPDATE feed.change SET kind = 'x'"] {
        until_loaded(&app).await;
        rows.tuple(VIEWER, "grant").await;
        assert_eq!(reason(&app, company).await, "ALLOWED");
        let before = epoch().await;
        rows.run(&format!("BEGIN; {NO_VIEWER}; {removed}; COMMIT")).await;
        assert_eq!(reason(&app, company).await, "ENGINE_DENIED", "{removed}");
        assert_ne!(epoch().await, before, "{removed}");
        follows(&app, &rows, company).await;
    }
    let (before, authz) = (epoch().await, database.pool_as("authz"));
    crate::feed::until_nothing_older_runs(&authz).await;
    let (mut pruner, begun) = (authz::feed::Pruner::default(), std::time::Instant::now());
    pruner.step(&authz, begun).await.expect("a step");
    assert!(pruner.step(&authz, begun + Duration::from_hours(1)).await.expect("a step") > 0);
    assert_eq!(epoch().await, before, "the log's own upkeep");
}

/// Whatever happens to the log, SQL answers the very request that detects it.
#[tokio::test]
async fn a_log_that_cannot_be_continued_costs_nobody_an_answer() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database.clone(), "root").await;
    let rows = app.rows();
    let told = async |expected: &str, after: &str| {
        for asked in 0..ASKED {
            let reply = app.can("alice", on_deal(company)).await;
            assert_eq!(reply.status, 200, "question {asked} after {after}: {}", reply.text);
            assert_eq!(reply.data()["reason"], expected, "question {asked} after {after}");
        }
    };
    for lost in [
        "SELECT feed.begin_anew()",
        "ALTER TABLE authz.tuple DISABLE TRIGGER USER; ALTER TABLE authz.tuple ENABLE TRIGGER USER",
        "DELETE FROM feed.epoch",
    ] {
        until_loaded(&app).await;
        rows.tuple(VIEWER, "grant").await;
        told("ALLOWED", "a grant").await;
        rows.run(&format!("BEGIN; {lost}; {NO_VIEWER}; COMMIT")).await;
        told("ENGINE_DENIED", lost).await;
        rows.tuple(VIEWER, "grant").await;
        told("ALLOWED", "a grant after it").await;
        rows.run(NO_VIEWER).await;
        told("ENGINE_DENIED", "a revocation after it").await;
    }
    // Without its row the log has no owner, and SQL decides until an operator rebuilds it.
    assert!(metric(&app, "platform_authz_memory_loaded").await < 1.0);
    let mut owner = PgConnection::connect_with(&database.owner_options()).await.expect("a connection");
    authz::operate::rebuild(&mut owner, "tester").await.expect("a rebuild");
    follows(&app, &rows, company).await;
}

#[tokio::test]
async fn tuples_that_are_all_taken_away_at_once_are_gone_from_memory() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    rows.tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run("TRUNCATE authz.tuple").await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
}

/// The database's own log stays as it is, however often it is checked; a foreign one is reset once.
#[tokio::test]
async fn only_a_log_of_another_database_begins_anew_and_once() {
    let database = testkit::database().await;
    let pool = database.owner_pool();
    let epoch = async || -> uuid::Uuid {
        sqlx::query_scalar("SELECT epoch FROM feed.epoch").fetch_one(&pool).await.expect("a row")
    };
    let keep = async || {
        let mut owner = pool.acquire().await.expect("a connection");
        authz::operate::keep_own_log(&mut owner).await.expect("an answer")
    };
    let own = epoch().await;
    assert_eq!((keep().await, keep().await, epoch().await), (false, false, own));
    // As a restore writes it: the same row, by another transaction.
    let rows = Rows(pool.clone());
    let copied = "CREATE TEMP TABLE kept AS TABLE feed.epoch; DELETE FROM feed.epoch; INSERT INTO feed.epoch TABLE kept; DROP TABLE kept";
    rows.run(copied).await;
    assert_eq!(epoch().await, own);
    let renewed = tokio::join!(keep(), keep(), keep());
    let count = [renewed.0, renewed.1, renewed.2].iter().filter(|renewed| **renewed).count();
    assert_eq!((count, keep().await), (1, false));
    assert_ne!(epoch().await, own);
    // Without the row a reader waits for the end of the restore; a migration run writes it.
    rows.run("DELETE FROM feed.epoch").await;
    let waits: bool = sqlx::query_scalar("SELECT feed.keep_own(false)")
        .fetch_one(&database.pool_as("authz"))
        .await
        .expect("an answer");
    assert_eq!((waits, keep().await, keep().await), (false, true, false));
}
