//! Standalone reads: their connections are the pool's, and a failure on one never affects the next reader.

use std::time::Duration;

use service::Reads;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const BACKEND: &str = "SELECT pg_backend_pid()";

async fn pool(connections: u32) -> PgPool {
    let options = testkit::database().await.owner_options();
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(2))
        .connect_lazy_with(options)
}

async fn backend(reads: &Reads) -> i32 {
    sqlx::query_scalar(BACKEND).fetch_one(reads).await.expect("an answer")
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_read_and_transactions_find_the_others() {
    let pool = pool(4).await;
    let reads = Reads::of(&pool);
    let first = backend(&reads).await;
    for _ in 0..10 {
        assert_eq!(backend(&reads).await, first);
    }
    let mut transactions = Vec::new();
    for _ in 0..3 {
        transactions.push(pool.begin().await.expect("one of the others"));
    }
    assert_eq!(backend(&reads).await, first, "all but the kept one are in use");
    assert!(pool.begin().await.is_err(), "the pool's limit applies");
    drop(transactions);
    let rows: Vec<i32> =
        sqlx::query_scalar("SELECT generate_series(1, 1000)").fetch_all(&reads).await.expect("rows");
    assert_eq!(rows, (1..=1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn half_of_the_connections_are_kept_and_more_readers_take_the_rest() {
    let pool = pool(4).await;
    let reads = Reads::of(&pool);
    let slowly = || async {
        let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid() FROM pg_sleep(0.05)")
            .fetch_one(&reads)
            .await
            .expect("an answer");
        backend
    };
    let (one, two, three, four) = tokio::join!(slowly(), slowly(), slowly(), slowly());
    let mut all = vec![one, two, three, four];
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4, "each on its own connection");
    let mut transactions = vec![pool.begin().await.expect("one of the others")];
    transactions.push(pool.begin().await.expect("the other of them"));
    assert!(pool.begin().await.is_err(), "two are kept");
    backend(&reads).await;
}

#[tokio::test]
async fn a_read_that_fails_or_is_given_up_leaves_nothing_for_the_next() {
    let reads = Reads::of(&pool(2).await);
    for _ in 0..5 {
        let failed =
            sqlx::query_scalar::<_, i32>("SELECT 1 / generate_series(-3, 3)").fetch_all(&reads).await;
        assert!(failed.is_err(), "a division by zero after some rows");
        let slow = sqlx::query_scalar::<_, i32>("SELECT 7 FROM pg_sleep(0.02)").fetch_one(&reads);
        assert!(tokio::time::timeout(Duration::from_millis(2), slow).await.is_err(), "it is abandoned");
        let answer: i32 = sqlx::query_scalar("SELECT 42").fetch_one(&reads).await.expect("its own answer");
        assert_eq!(answer, 42);
    }
}

#[tokio::test]
async fn a_connection_that_died_while_it_waited_is_noticed() {
    let pool = pool(2).await;
    let reads = Reads::of(&pool);
    let first = backend(&reads).await;
    sqlx::query("SELECT pg_terminate_backend($1)").bind(first).execute(&pool).await.expect("terminated");
    let failed = sqlx::query_scalar::<_, i32>(BACKEND).fetch_one(&reads).await;
    assert!(failed.is_err(), "it was used a moment ago, so it was not pinged");
    assert_ne!(backend(&reads).await, first, "a failed connection is not used again");
}
