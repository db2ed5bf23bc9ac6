//! Statements over the outbox.

use sqlx::PgExecutor;

/// The jobs of one state.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) state: String,
    pub(super) count: i64,
    /// How long the oldest waits past its time.
    pub(super) overdue_seconds: f64,
}

/// The jobs of a claim group by state; a state without jobs has no row.
pub(super) async fn count(db: impl PgExecutor<'_>, group: &str) -> sqlx::Result<Vec<Count>> {
    sqlx::query_as!(
        Count,
        r#"SELECT state AS "state!", count(*) AS "count!",
                  GREATEST(EXTRACT(EPOCH FROM now() - min(next_attempt_at)), 0)::float8 AS "overdue_seconds!"
             FROM notification.delivery_jobs WHERE claim_group = $1 GROUP BY state"#,
        group
    )
    .fetch_all(db)
    .await
}
