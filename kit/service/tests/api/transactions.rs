//! The beginning of a transaction.

use service::{Reads, transaction};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use time::OffsetDateTime;

/// A statement that the server answers once nobody holds [`LOCK`].
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_advisory_xact_lock(1)";
const LOCK: &str = "SELECT pg_advisory_xact_lock(1)";

/// Drops a future that runs [`BEGIN`] while the server works on it.
async fn give_up<T>(begin: impl Future<Output = T>, others: &PgPool) {
    let mut lock = others.begin().await.expect("a transaction");
    sqlx::query(LOCK).execute(&mut *lock).await.expect("the lock");
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database())";
    let waits = async || sqlx::query_scalar::<_, bool>(waiting).fetch_one(others).await.expect("activity");
    tokio::select! {
        _ = begin => panic!("it began although the lock is held"),
        () = testkit::until("the statement waits for the lock", waits) => {}
    }
    lock.commit().await.expect("the lock is free");
}

/// Whether the pool's only connection is in no transaction, so that each statement reads the present and is committed:
/// in a transaction, `now()` stands still.
async fn is_in_no_transaction(pool: &PgPool) -> bool {
    let pooled = Reads::keeping_none(pool);
    let now = || async {
        let now: OffsetDateTime =
            sqlx::query_scalar("SELECT now()").fetch_one(&pooled).await.expect("a time");
        now
    };
    now().await < now().await
}

#[tokio::test]
async fn a_transaction_that_is_given_up_as_it_begins_is_not_left_on_its_connection() {
    let options = testkit::database().await.owner_options();
    let others = PgPoolOptions::new().connect_lazy_with(options.clone());
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);

    give_up(transaction::begin(&pool, BEGIN), &others).await;
    assert!(is_in_no_transaction(&pool).await);

    // The control: sqlx's own.
    give_up(pool.begin_with(BEGIN), &others).await;
    let in_none = is_in_no_transaction(&pool).await;
    assert!(!in_none, "sqlx rolls it back now: `transaction::begin` is no longer needed");
}
