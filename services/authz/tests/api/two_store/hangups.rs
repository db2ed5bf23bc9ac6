//! Clients that hang up while the first phase is committed.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Postgres};

use super::scene::Scene;

/// A commit that writes such a state waits for the lock of [`held`].
const SLOW_COMMIT: &str = "
    CREATE FUNCTION crm.commits_slowly() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock(1, 1); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT OR UPDATE ON crm.shares DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (NEW.state IN ('pending', 'revoking') AND NEW.attempts = 0) EXECUTE FUNCTION crm.commits_slowly()";

/// Something that a request waits for until the connection is closed.
async fn held(scene: &Scene, sql: &str) -> PoolConnection<Postgres> {
    let mut conn = scene.pool().acquire().await.expect("a connection");
    conn.close_on_drop();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *conn).await.expect("held");
    conn
}

/// Drops the request once it waits for somebody else's lock.
async fn hang_up(scene: &Scene, request: impl Future) {
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'platform_crm' AND wait_event_type = 'Lock'";
    let waits = async { while count(scene, waits).await == 0 {} };
    tokio::select! {
        _ = request => panic!("the request was to wait"),
        () = waits => {}
    }
}

async fn count(scene: &Scene, sql: &str) -> i64 {
    let found =
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(scene.pool()).await.expect("a number");
    tokio::task::yield_now().await;
    found
}

/// Waits until this number of shares is in this state.
async fn becomes(scene: &Scene, state: &str, number: i64) {
    let sql = format!("SELECT count(*) FROM crm.shares WHERE state = '{state}'");
    let reached = async { while count(scene, &sql).await != number {} };
    let waited = tokio::time::timeout(Duration::from_secs(10), reached).await;
    assert!(waited.is_ok(), "not {number} {state}: {:?}", scene.share_of("h").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_during_the_first_commit_interrupts_nothing() {
    let scene = Scene::start().await;
    scene.rows.run(SLOW_COMMIT).await;
    let slow = held(&scene, "SELECT pg_advisory_lock(1, 1)").await;
    hang_up(&scene, scene.module.share("h", None)).await;
    assert_eq!(scene.share_of("h").await, None, "control: it was not committed yet");
    drop(slow);
    becomes(&scene, "active", 1).await;
    let (_, id) = scene.share_of("h").await.expect("the share");
    let slow = held(&scene, "SELECT pg_advisory_lock(1, 1)").await;
    hang_up(&scene, scene.module.unshare(id)).await;
    assert_eq!(
        scene.share_of("h").await,
        Some(("active".to_owned(), id)),
        "control: it was not committed yet"
    );
    drop(slow);
    becomes(&scene, "active", 0).await;
    becomes(&scene, "revoking", 0).await;
    scene.at_rest().await;
    assert_eq!(
        (scene.audited("h", "share.created").await, scene.audited("h", "share.deleted").await),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_before_the_first_commit_changes_nothing() {
    let scene = Scene::start().await;
    scene.module.share("h", None).await.expect("shared");
    let (_, id) = scene.share_of("h").await.expect("the share");
    let row = held(&scene, "BEGIN; SELECT FROM crm.shares FOR UPDATE").await;
    hang_up(&scene, scene.module.unshare(id)).await;
    drop(row);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'platform_crm' AND state <> 'idle'";
    while count(&scene, open).await > 0 {}
    assert_eq!(scene.share_of("h").await, Some(("active".to_owned(), id)));
    scene.at_rest().await;
}
