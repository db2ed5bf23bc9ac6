//! Transactions that the database aborts in favour of others: retried as often as documented, and only when the request
//! has committed nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::json;
use service::contention::{RETRIES, retried};
use service::{ApiError, AuditEvent, AuditedTx, Caller, Core, Correlation, Created, RawBody};
use sqlx::{AssertSqlSafe, PgConnection};
use testkit::Reply;

use crate::app::{App, Note, TestApp};

/// Deadlock timeout of these databases, so that a test need not wait a second for each.
const NOTICED_AFTER: &str = "100ms";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/pairs", post(hold_a_pair))
        .route("/given-up", post(given_up))
        .route("/late", post(given_up_after_a_commit))
        .route("/parts", post(given_up_in_the_second_part))
}

fn event(action: &'static str, text: &str) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("pair:{text}"), payload: json!({}) }
}

/// Keys of the test's advisory locks, so that each lock has its own.
const SOMEBODY_WAITS: &str =
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
const ONE_IS_HELD: &str =
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";

async fn is_so(conn: &mut PgConnection, question: &'static str) {
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    loop {
        pace.tick().await;
        if sqlx::query_scalar(question).fetch_one(&mut *conn).await.expect("the locks") {
            return;
        }
    }
}

async fn lock(conn: &mut PgConnection, key: i64) -> sqlx::Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(key).execute(conn).await.map(drop)
}

/// Takes locks 1 and 2, in this order. The first attempt requests 2 only when another session waits for 1, so that it
/// closes the cycle and is the one that detects the deadlock.
async fn hold_a_pair(
    State(App(core, attempts)): State<App>,
    caller: Caller,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<String>, ApiError> {
    let Note(text) = body.parse()?;
    let attempt = attempts.fetch_add(1, Ordering::SeqCst);
    let mut tx = core.begin(&caller.subject, &id).await?;
    tx.record(&event("pair.begun", &text)).await?;
    lock(tx.conn(), 1).await?;
    if attempt == 0 {
        is_so(tx.conn(), SOMEBODY_WAITS).await;
    }
    lock(tx.conn(), 2).await?;
    tx.commit(&event("pair.held", &text)).await?;
    Ok(Created(text))
}

/// For the text `<SQLSTATE> <n>`, the database aborts the first n attempts with that state.
async fn given_up(
    State(App(core, attempts)): State<App>,
    body: RawBody,
) -> Result<Created<String>, ApiError> {
    let Note(text) = body.parse()?;
    let mut tx = core.begin_as("test", None).await?;
    tx.record(&event("work.begun", &text)).await?;
    fail(&mut tx, &text, attempts.fetch_add(1, Ordering::SeqCst)).await?;
    tx.commit(&event("work.done", &text)).await?;
    Ok(Created(text))
}

async fn fail(tx: &mut AuditedTx, text: &str, attempt: usize) -> Result<(), ApiError> {
    let (state, times) = text.split_once(' ').expect("a state and a number");
    if attempt < times.parse().expect("a number") {
        let sql = format!("DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(tx.conn()).await?;
    }
    Ok(())
}

async fn committed_part(core: &Core, text: &str) -> Result<(), ApiError> {
    core.begin_as("test", None).await?.commit(&event("work.first", text)).await
}

async fn given_up_after_a_commit(
    State(App(core, attempts)): State<App>,
    body: RawBody,
) -> Result<Created<String>, ApiError> {
    let Note(text) = body.parse()?;
    committed_part(&core, &text).await?;
    let mut tx = core.begin_as("test", None).await?;
    fail(&mut tx, &text, attempts.fetch_add(1, Ordering::SeqCst)).await?;
    tx.commit(&event("work.done", &text)).await?;
    Ok(Created(text))
}

async fn given_up_in_the_second_part(
    State(App(core, attempts)): State<App>,
    body: RawBody,
) -> Result<Created<String>, ApiError> {
    let Note(text) = body.parse()?;
    committed_part(&core, &text).await?;
    retried(|| async {
        let mut tx = core.begin_as("test", None).await?;
        fail(&mut tx, &text, attempts.fetch_add(1, Ordering::SeqCst)).await?;
        tx.commit(&event("work.done", &text)).await
    })
    .await?;
    Ok(Created(text))
}

impl TestApp {
    async fn ask(&self, path: &str, text: &str) -> Reply {
        let call = self.api.post(path).bearer(&self.token());
        call.json(json!({ "text": text })).send().await
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Ordering::SeqCst)
    }

    /// The actions of the audit rows, oldest first.
    async fn actions(&self) -> Vec<String> {
        let rows = sqlx::query_scalar("SELECT action FROM audit.org__events ORDER BY seq");
        rows.fetch_all(&self.database.owner_pool()).await.expect("the rows")
    }

    async fn notices_deadlocks_soon(&self) {
        let sql = format!(
            "ALTER ROLE platform_org IN DATABASE \"{}\" SET deadlock_timeout = '{NOTICED_AFTER}'",
            self.database.name()
        );
        let owner = self.database.owner_pool();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&owner).await.expect("the superuser may");
    }
}

#[tokio::test]
async fn a_deadlock_is_tried_again_and_the_answer_is_as_without_it() {
    let app = TestApp::start().await;
    app.notices_deadlocks_soon().await;
    let owner = app.database.owner_pool();
    let mut other = owner.begin().await.expect("a transaction");
    // The service's session is the one that detects the deadlock.
    sqlx::raw_sql("SET LOCAL deadlock_timeout = '1min'")
        .execute(&mut *other)
        .await
        .expect("the superuser may");
    lock(&mut other, 2).await.expect("nobody has it");
    let beside = async {
        is_so(&mut other, ONE_IS_HELD).await;
        lock(&mut other, 1).await.expect("the service gives way");
        other.commit().await.expect("it holds both");
    };
    let (reply, ()) = tokio::join!(app.ask("/pairs", "a pair"), beside);
    assert_eq!((reply.status, reply.data()), (201, &json!("a pair")), "{}", reply.text);
    assert_eq!(app.attempts(), 2);
    assert_eq!(app.actions().await, ["pair.begun", "pair.held"], "the first attempt left no trace");
}

#[tokio::test]
async fn three_retries_and_not_one_more() {
    assert_eq!(RETRIES, 3);
    for state in ["40001", "40P01"] {
        for (times, status, attempts) in [(1, 201, 2), (3, 201, 4), (4, 503, 4)] {
            let app = TestApp::start().await;
            let reply = app.ask("/given-up", &format!("{state} {times}")).await;
            assert_eq!((reply.status, app.attempts()), (status, attempts), "{state} {times}: {}", reply.text);
            if status == 201 {
                assert_eq!(app.actions().await, ["work.begun", "work.done"], "once");
            } else {
                assert_eq!(reply.code(), "AUTHORIZATION_UNAVAILABLE");
                assert_eq!(reply.body["error"]["details"]["dependency"], "postgres");
                assert!(app.actions().await.is_empty(), "nothing was done");
            }
        }
    }
}

#[tokio::test]
async fn other_failures_are_not_tried_again() {
    let app = TestApp::start().await;
    for (number, (state, status)) in [("22012", 500), ("57014", 503), ("55P03", 503)].into_iter().enumerate()
    {
        let reply = app.ask("/given-up", &format!("{state} 9")).await;
        assert_eq!((reply.status, app.attempts()), (status, number + 1), "{state}: {}", reply.text);
    }
}

#[tokio::test]
async fn what_a_request_committed_before_is_never_done_twice() {
    let app = TestApp::start().await;
    let reply = app.ask("/late", "40P01 1").await;
    assert_eq!((reply.status, app.attempts()), (503, 1), "{}", reply.text);
    assert_eq!(app.actions().await, ["work.first"]);
    let app = TestApp::start().await;
    let reply = app.ask("/parts", "40P01 3").await;
    assert_eq!((reply.status, app.attempts()), (201, 4), "{}", reply.text);
    assert_eq!(app.actions().await, ["work.first", "work.done"], "only the second part was repeated");
    let app = TestApp::start().await;
    let reply = app.ask("/parts", "40P01 9").await;
    assert_eq!((reply.status, app.attempts()), (503, 4), "{}", reply.text);
    assert_eq!(app.actions().await, ["work.first"]);
}
