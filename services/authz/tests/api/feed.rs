//! The change log contains every added or removed tuple, in the transaction that wrote it, whatever wrote it.

use std::time::{Duration, Instant};

use authz::feed::Pruner;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::app::Rows;

async fn log(pool: &PgPool) -> Vec<Value> {
    let sql = "SELECT jsonb_build_array(kind, op, row ->> 'object_id', row ->> 'source') FROM feed.change ORDER BY seq";
    sqlx::query_scalar(sql).fetch_all(pool).await.expect("the log")
}

#[tokio::test]
async fn what_any_role_adds_or_removes_is_logged_once() {
    let database = testkit::database().await;
    let org = Rows(database.pool_as("org"));
    org.run(
        "INSERT INTO authz.tuple VALUES ('group', 'g', 'member', 'user', 'a', '', 'org'),
           ('group', 'h', 'member', 'user', 'a', '', 'org');
         INSERT INTO authz.tuple VALUES ('group', 'g', 'member', 'user', 'a', '', 'org'),
           ('group', 'i', 'member', 'user', 'a', '', 'org') ON CONFLICT DO NOTHING;
         DELETE FROM authz.tuple WHERE object_id <> 'g';
         DELETE FROM authz.tuple WHERE object_id = 'nothing'",
    )
    .await;
    let mut logged = log(&database.pool_as("authz")).await;
    let removed = logged.split_off(3);
    assert_eq!(
        logged,
        [
            json!(["tuple", "I", "g", "org"]),
            json!(["tuple", "I", "h", "org"]),
            json!(["tuple", "I", "i", "org"])
        ]
    );
    assert_eq!(removed.len(), 2);
    assert!(removed.iter().all(|row| row[1] == "D" && row[2] != "g"), "{removed:?}");
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_leaves_nothing_and_a_committed_one_its_number() {
    let database = testkit::database().await;
    let authz = database.pool_as("authz");
    for (id, commit) in [("lost", false), ("kept", true)] {
        let mut tx = authz.begin().await.expect("a transaction");
        sqlx::query("INSERT INTO authz.tuple VALUES ('group', $1, 'member', 'user', 'a', '', 'org')")
            .bind(id)
            .execute(&mut *tx)
            .await
            .expect("a tuple");
        let own: bool = sqlx::query_scalar(
            "SELECT bool_and(xid = pg_current_xact_id()) FROM feed.change WHERE row ->> 'object_id' = $1",
        )
        .bind(id)
        .fetch_one(&mut *tx)
        .await
        .expect("its row");
        assert!(own, "the row carries its transaction");
        if commit { tx.commit().await.expect("a commit") } else { tx.rollback().await.expect("a rollback") }
    }
    assert_eq!(log(&authz).await, [json!(["tuple", "I", "kept", "org"])]);
}

#[tokio::test]
async fn the_pruner_removes_what_was_over_an_hour_ago_and_nothing_younger() {
    let database = testkit::database().await;
    let authz = database.pool_as("authz");
    let rows = Rows(authz.clone());
    let mut pruner = Pruner::default();
    let begun = Instant::now();
    rows.run("INSERT INTO authz.tuple VALUES ('group', 'old', 'member', 'user', 'a', '', 'org')").await;
    until_nothing_older_runs(&authz).await;
    assert_eq!(pruner.step(&authz, begun).await.expect("a step"), 0);
    rows.run("INSERT INTO authz.tuple VALUES ('group', 'young', 'member', 'user', 'a', '', 'org')").await;
    let almost = begun + Duration::from_secs(3_599);
    assert_eq!(pruner.step(&authz, almost).await.expect("a step"), 0);
    let later = begun + Duration::from_hours(1);
    assert_eq!(pruner.step(&authz, later).await.expect("a step"), 1);
    assert_eq!(log(&authz).await, [json!(["tuple", "I", "young", "org"])]);
}

/// Waits for older transactions, because those of other tests' databases hold the mark back too.
pub(crate) async fn until_nothing_older_runs(pool: &PgPool) {
    let over = "SELECT bool_and(xid < pg_snapshot_xmin(pg_current_snapshot())) FROM feed.change";
    while !sqlx::query_scalar::<_, bool>(over).fetch_one(pool).await.expect("the log") {
        tokio::task::yield_now().await;
    }
}
