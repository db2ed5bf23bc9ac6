//! Statements over the outbox in addition to those of the queue.

use contract::id::{CompanyId, MemberId};
use service::workers::Lease;
use service::{ApiError, CompanyTx};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::channels::rules::ChannelId;

/// The number of jobs in one state.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) state: String,
    pub(super) jobs: i64,
    /// How long the oldest pending job is overdue; zero for other states.
    pub(super) overdue_seconds: f64,
}

/// Counts the jobs of a claim group by state; a state without jobs has no row. Reads only indexes, because the rows are
/// wide.
pub(super) async fn count(db: impl PgExecutor<'_>, group: &str) -> sqlx::Result<Vec<Count>> {
    sqlx::query_as!(
        Count,
        r#"SELECT state AS "state!", count(*) AS "jobs!",
                  GREATEST(EXTRACT(EPOCH FROM now() - CASE WHEN state = 'pending' THEN
                    (SELECT min(next_attempt_at) FROM notification.delivery_jobs WHERE claim_group = $1 AND state = 'pending')
                  END), 0)::float8 AS "overdue_seconds!"
             FROM notification.delivery_jobs WHERE claim_group = $1 GROUP BY state"#,
        group
    )
    .fetch_all(db)
    .await
}

/// One attempt as it is stored.
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

/// Records an attempt, and its result in the job.
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

/// Records that these attempts succeeded: the jobs, the attempts, and the health of their channels, in one statement
/// and so in one transaction, following the rules of `JobTable::settle`, [`keep_attempt`] and
/// `health::store::succeeded`. Returns the jobs whose lease was still valid; nothing is recorded for the others.
/// Successful deliveries have no audit row.
pub(super) async fn settle_done(
    db: impl PgExecutor<'_>,
    done: &[(Lease, AttemptRow)],
) -> Result<Vec<Uuid>, ApiError> {
    let column = |of: fn(&(Lease, AttemptRow)) -> Uuid| done.iter().map(of).collect::<Vec<_>>();
    let numbers: Vec<i32> = done.iter().map(|(_, row)| row.number).collect();
    // 0 stands for none: the driver's arrays cannot contain nulls.
    let statuses: Vec<i32> = done.iter().map(|(_, row)| row.status.unwrap_or_default()).collect();
    let starts: Vec<OffsetDateTime> = done.iter().map(|(_, row)| row.started_at).collect();
    let durations: Vec<i32> = done.iter().map(|(_, row)| row.duration_ms).collect();
    let stored = sqlx::query_scalar!(
        r#"WITH ended AS (
             SELECT id, token, number, NULLIF(status, 0) AS status, started_at, duration_ms
               FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::timestamptz[], $6::int[])
               AS ended(id, token, number, status, started_at, duration_ms)
           ), settled AS (
             UPDATE notification.delivery_jobs j
                SET state = 'done', settled_at = now(), lease_token = NULL, leased_until = NULL,
                    is_ready = false, last_status = ended.status, error_class = NULL
               FROM ended WHERE j.id = ended.id AND j.lease_token = ended.token AND j.state = 'pending'
             RETURNING j.id, j.channel_id
           ), kept AS (
             INSERT INTO notification.delivery_attempts(job_id, attempt_no, outcome, status_code, started_at, duration_ms)
             SELECT id, ended.number, 'success', ended.status, ended.started_at, ended.duration_ms
               FROM ended JOIN settled USING (id)
             ON CONFLICT (job_id, attempt_no) DO NOTHING
           ), lively AS (
             INSERT INTO notification.channel_health(channel_id, last_success_at)
             SELECT DISTINCT settled.channel_id, now() FROM settled WHERE NOT EXISTS (
               SELECT FROM notification.channel_health h
                WHERE h.channel_id = settled.channel_id AND h.consecutive_dead = 0
                  AND h.last_success_at > now() - interval '1 second')
              ORDER BY settled.channel_id
             ON CONFLICT (channel_id) DO UPDATE SET consecutive_dead = 0, dead_since = NULL, last_success_at = now()
           )
           SELECT id FROM settled"#,
        &column(|(lease, _)| lease.id),
        &column(|(lease, _)| lease.token),
        &numbers,
        &statuses,
        &starts,
        &durations
    )
    .fetch_all(db)
    .await?;
    Ok(stored)
}

/// Records why a job was given up or postponed without an attempt.
pub(super) async fn explain(tx: &mut CompanyTx, job: Uuid, class: &str) -> Result<(), ApiError> {
    sqlx::query!("UPDATE notification.delivery_jobs SET error_class = $2 WHERE id = $1", job, class)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Who subscribes to a channel.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) member: MemberId,
    /// The login that subscribed; `None` if the subscription is older than this column.
    pub(super) login: Option<String>,
}

/// Whose address a mail goes to.
#[derive(Debug)]
pub(super) enum Standing {
    /// The channel's own.
    Own,
    /// That of these subscribers; of none any more if there are none.
    Of(Vec<Subscriber>),
}

/// Finds whose address of a channel this is; at most as many subscribers as one look-up in org takes.
pub(super) async fn standing(
    pool: &PgPool,
    company: CompanyId,
    channel: ChannelId,
    address: &str,
) -> sqlx::Result<Standing> {
    let is_own = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM notification.channels
             WHERE company_id = $1 AND id = $2 AND lower(target) = $3) AS "own!""#,
        company.as_uuid(),
        channel.as_uuid(),
        address
    );
    if is_own.fetch_one(pool).await? {
        return Ok(Standing::Own);
    }
    let found = sqlx::query!(
        "SELECT member_id, kc_sub FROM notification.subscriptions
         WHERE company_id = $1 AND channel_id = $2 AND lower(email) = $3 ORDER BY member_id LIMIT 200",
        company.as_uuid(),
        channel.as_uuid(),
        address
    )
    .fetch_all(pool)
    .await?;
    let subscriber = |member: Uuid, login| Subscriber { member: member.into(), login };
    Ok(Standing::Of(found.into_iter().map(|row| subscriber(row.member_id, row.kc_sub)).collect()))
}

/// Whether a channel can have deliveries.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelState {
    pub(super) is_deleted: bool,
    pub(super) is_disabled: bool,
}

/// Reads the state of a channel and locks it until the transaction ends: a request that deletes or enables the channel
/// waits, and then sees what the transaction stored.
pub(super) async fn channel_state(tx: &mut CompanyTx, id: ChannelId) -> Result<ChannelState, ApiError> {
    let state = sqlx::query_as!(
        ChannelState,
        r#"SELECT deleted_at IS NOT NULL AS "is_deleted!", disabled_reason IS NOT NULL AS "is_disabled!"
             FROM notification.channels WHERE id = $1 FOR SHARE"#,
        id.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(state)
}

/// The jobs that a dispatch found.
#[derive(Debug)]
pub(super) struct Dispatched {
    pub(super) sent: i64,
    pub(super) pending: i64,
}

/// Counts the pending jobs of the company, and those of them that a dispatch makes due: no worker has leased them and
/// their channel is not disabled. It is one statement, so both counts refer to the same moment.
pub(super) async fn count_pending(tx: &mut CompanyTx) -> Result<Dispatched, ApiError> {
    let company: CompanyId = tx.company();
    let found = sqlx::query_as!(
        Dispatched,
        r#"SELECT count(*) AS "pending!",
             count(*) FILTER (WHERE c.disabled_reason IS NULL AND (j.leased_until IS NULL OR j.leased_until < now()))
               AS "sent!"
           FROM notification.delivery_jobs j JOIN notification.channels c ON c.id = j.channel_id
           WHERE j.company_id = $1 AND j.state = 'pending'"#,
        company.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(found)
}
