//! The beginning of a transaction.

use std::time::Duration;

use service::{Reads, transaction};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::reads::pool;

/// Whether the pool's only connection is in no transaction, so that each statement reads the present and is committed:
/// in a transaction, time stands still.
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
    // The server answers later than the caller waits.
    const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_sleep(0.1)";
    let wait = Duration::from_millis(5);
    let pool = pool(1).await;
    assert!(is_in_no_transaction(&pool).await, "it is connected");
    for _ in 0..5 {
        assert!(timeout(wait, transaction::begin(&pool, BEGIN)).await.is_err(), "it is given up");
        assert!(is_in_no_transaction(&pool).await);
    }
    // The control: sqlx's own.
    assert!(timeout(wait, pool.begin_with(BEGIN)).await.is_err(), "it is given up");
    assert!(
        !is_in_no_transaction(&pool).await,
        "sqlx ends it by itself now: `transaction::begin` has had its use"
    );
}
