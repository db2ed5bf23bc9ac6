//! Statements over the outbox beside those of the queue.

use contract::id::CompanyId;
use service::{ApiError, CompanyTx};
use sqlx::PgExecutor;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::channels::rules::ChannelId;

/// The jobs of one state.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) state: String,
    pub(super) jobs: i64,
    /// How long the oldest waits past its time.
    pub(super) overdue_seconds: f64,
}

/// The jobs of a claim group by state; a state without jobs has no row.
pub(super) async fn count(db: impl PgExecutor<'_>, group: &str) -> sqlx::Result<Vec<Count>> {
    sqlx::query_as!(
        Count,
        r#"SELECT state AS "state!", count(*) AS "jobs!",
                  GREATEST(EXTRACT(EPOCH FROM now() - min(next_attempt_at)), 0)::float8 AS "overdue_seconds!"
             FROM notification.delivery_jobs WHERE claim_group = $1 GROUP BY state"#,
        group
    )
    .fetch_all(db)
    .await
}

/// One attempt as it is kept.
#[derive(Debug)]
pub(super) struct AttemptRow {
    pub(super) job: Uuid,
    pub(super) number: i32,
    pub(super) outcome: &'static str,
    pub(super) status: Option<i32>,
    pub(super) class: Option<&'static str>,
    pub(super) started_at: OffsetDateTime,
    pub(super) duration_ms: i32,
}

/// Keeps an attempt, and its end with the job.
pub(super) async fn keep_attempt(tx: &mut CompanyTx, attempt: &AttemptRow) -> Result<(), ApiError> {
    sqlx::query!(
        "WITH kept AS (
           UPDATE notification.delivery_jobs SET last_status = $4, error_class = $5 WHERE id = $1)
         INSERT INTO notification.delivery_attempts(job_id, attempt_no, outcome, status_code, error_class, started_at,
           duration_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (job_id, attempt_no) DO NOTHING",
        attempt.job,
        attempt.number,
        attempt.outcome,
        attempt.status,
        attempt.class,
        attempt.started_at,
        attempt.duration_ms
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Says with a job why it was given up without an attempt.
pub(super) async fn explain(tx: &mut CompanyTx, job: Uuid, class: &str) -> Result<(), ApiError> {
    sqlx::query!("UPDATE notification.delivery_jobs SET error_class = $2 WHERE id = $1", job, class)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Whether a channel is deleted.
pub(super) async fn is_deleted(tx: &mut CompanyTx, id: ChannelId) -> Result<bool, ApiError> {
    let deleted = sqlx::query_scalar!(
        r#"SELECT deleted_at IS NOT NULL AS "deleted!" FROM notification.channels WHERE id = $1"#,
        id.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(deleted)
}

/// What a dispatch found.
#[derive(Debug)]
pub(super) struct Dispatched {
    pub(super) sent: i64,
    pub(super) pending: i64,
}

/// Makes every pending job of the company due that nobody is working on and whose channel is not disabled, in one
/// statement: together with the others they are the jobs that were pending at that moment.
pub(super) async fn make_due(tx: &mut CompanyTx) -> Result<Dispatched, ApiError> {
    let company: CompanyId = tx.company();
    let found = sqlx::query_as!(
        Dispatched,
        r#"WITH pending AS (
             SELECT j.id, j.leased_until, c.disabled_reason
             FROM notification.delivery_jobs j JOIN notification.channels c ON c.id = j.channel_id
             WHERE j.company_id = $1 AND j.state = 'pending'
           ), sent AS (
             UPDATE notification.delivery_jobs j SET next_attempt_at = LEAST(j.next_attempt_at, now())
             FROM pending p
             WHERE j.id = p.id AND p.disabled_reason IS NULL AND j.state = 'pending'
               AND (j.leased_until IS NULL OR j.leased_until < now())
             RETURNING 1)
           SELECT (SELECT count(*) FROM sent) AS "sent!", (SELECT count(*) FROM pending) AS "pending!""#,
        company.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(found)
}
