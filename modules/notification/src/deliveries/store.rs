//! `notification.delivery_jobs` and `delivery_attempts` as administrators see them, and replays.

use contract::id::CompanyId;
use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{AttemptShown, Delivery, MAX_REPLAYED, ReplayBody, State, recipient};
use crate::app::Outbox;
use crate::channels::rules::ChannelId;
use crate::delivery::DeliveryId;

pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) message_id: Uuid,
    pub(super) channel_id: Uuid,
    pub(super) kind: String,
    pub(super) target: String,
    pub(super) state: String,
    pub(super) attempt_count: i32,
    pub(super) next_attempt_at: OffsetDateTime,
    pub(super) last_status: Option<i32>,
    pub(super) error_class: Option<String>,
    pub(super) replay_of: Option<Uuid>,
    pub(super) created_at: OffsetDateTime,
    pub(super) settled_at: Option<OffsetDateTime>,
    pub(super) total: i64,
}

impl Row {
    pub(super) fn delivery(self, company: CompanyId) -> Result<Delivery, ApiError> {
        let state = State::of_word(&self.state)?;
        let next_attempt_at = (state == State::Pending).then(|| self.next_attempt_at.into());
        Ok(Delivery {
            id: self.id.into(),
            company_id: company,
            message_id: self.message_id.into(),
            channel_id: self.channel_id.into(),
            recipient: recipient(&self.kind, &self.target),
            kind: self.kind,
            state,
            attempt_count: self.attempt_count,
            next_attempt_at,
            last_status: self.last_status,
            error_class: self.error_class,
            replay_of: self.replay_of.map(Into::into),
            created_at: self.created_at.into(),
            settled_at: self.settled_at.map(Into::into),
        })
    }
}

/// Finds a delivery of the company.
pub(super) async fn find(
    pool: &PgPool,
    permit: &Permit,
    id: DeliveryId,
) -> Result<Option<Delivery>, ApiError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT id, message_id, channel_id, kind, target, state, attempt_count, next_attempt_at, last_status,
                  error_class, replay_of, created_at, settled_at, 1::bigint AS "total!"
           FROM notification.delivery_jobs WHERE company_id = $1 AND id = $2"#,
        permit.company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| row.delivery(permit.company)).transpose()
}

/// Lists the attempts of a delivery that [`find`] has found.
pub(super) async fn attempts(pool: &PgPool, id: DeliveryId) -> Result<Vec<AttemptShown>, ApiError> {
    let rows = sqlx::query!(
        "SELECT attempt_no, outcome, status_code, error_class, started_at, duration_ms
         FROM notification.delivery_attempts WHERE job_id = $1 ORDER BY attempt_no",
        id.as_uuid()
    )
    .fetch_all(pool)
    .await?;
    let shown = rows.into_iter().map(|row| AttemptShown {
        attempt_no: row.attempt_no,
        outcome: row.outcome,
        status_code: row.status_code,
        error_class: row.error_class,
        started_at: row.started_at.into(),
        duration_ms: row.duration_ms,
    });
    Ok(shown.collect())
}

/// What decides whether a delivery may be replayed.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) state: String,
    pub(super) replay: Option<Uuid>,
}

/// Finds the channel of a delivery of the company.
pub(super) async fn channel_of(tx: &mut CompanyTx, id: DeliveryId) -> Result<Option<ChannelId>, ApiError> {
    let company = tx.company();
    let found = sqlx::query_scalar!(
        "SELECT channel_id FROM notification.delivery_jobs WHERE company_id = $1 AND id = $2",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(found.map(Into::into))
}

/// Reads whether a delivery of the company may be replayed. Its [`channel`] is locked, so that no other transaction
/// replays it; the key-share lock keeps its row without waiting for a worker that settles it.
pub(super) async fn standing(tx: &mut CompanyTx, id: DeliveryId) -> Result<Option<Standing>, ApiError> {
    let company = tx.company();
    let found = sqlx::query_as!(
        Standing,
        "SELECT j.state, (SELECT r.id FROM notification.delivery_jobs r WHERE r.replay_of = j.id) AS replay
         FROM notification.delivery_jobs j WHERE j.company_id = $1 AND j.id = $2 FOR KEY SHARE OF j",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(found)
}

/// Creates a new delivery with the same payload and its own id, so that the receiver does not take it for the old one.
pub(super) async fn replay(
    tx: &mut CompanyTx,
    outbox: &Outbox,
    id: DeliveryId,
) -> Result<Delivery, ApiError> {
    let company = tx.company();
    let row = sqlx::query_as!(
        Row,
        r#"INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload,
             claim_group, replay_of, is_ready)
           SELECT $3, company_id, message_id, channel_id, kind, target, payload, $4, id, true
           FROM notification.delivery_jobs WHERE company_id = $1 AND id = $2
           RETURNING id, message_id, channel_id, kind, target, state, attempt_count, next_attempt_at, last_status,
             error_class, replay_of, created_at, settled_at, 1::bigint AS "total!""#,
        company.as_uuid(),
        id.as_uuid(),
        DeliveryId::mint().as_uuid(),
        &*outbox.group
    )
    .fetch_one(tx.conn())
    .await?;
    row.delivery(company)
}

/// Keeps the channel's former addresses as long as its replayed deliveries may remain. The caller holds the channel's
/// lock.
pub(super) async fn keep_addresses(tx: &mut CompanyTx, channel: ChannelId) -> Result<(), ApiError> {
    let company = tx.company();
    sqlx::query!(
        "UPDATE notification.former_addresses SET until = now() WHERE company_id = $1 AND channel_id = $2",
        company.as_uuid(),
        channel.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Reads whether a channel of the company is deleted and whether it is disabled. Locks the row until the transaction
/// ends, so that concurrent replays of the channel's deliveries wait for each other.
pub(super) async fn channel(tx: &mut CompanyTx, id: ChannelId) -> Result<Option<(bool, bool)>, ApiError> {
    let company = tx.company();
    let row = sqlx::query!(
        r#"SELECT deleted_at IS NOT NULL AS "is_deleted!", disabled_reason IS NOT NULL AS "is_disabled!"
           FROM notification.channels WHERE company_id = $1 AND id = $2 FOR NO KEY UPDATE"#,
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|row| (row.is_deleted, row.is_disabled)))
}

/// Replays the dead deliveries of a channel that were created since `body.since` and have no replay, oldest first. The
/// caller holds the channel's lock.
pub(super) async fn replay_many(
    tx: &mut CompanyTx,
    outbox: &Outbox,
    body: &ReplayBody,
) -> Result<u64, ApiError> {
    let company = tx.company();
    let ids: Vec<Uuid> = (0..MAX_REPLAYED).map(|_| Uuid::now_v7()).collect();
    let done = sqlx::query!(
        "WITH dead AS (
           SELECT j.*, row_number() OVER (ORDER BY j.created_at, j.id) AS place FROM notification.delivery_jobs j
           WHERE j.company_id = $1 AND j.channel_id = $2 AND j.state = 'dead' AND j.created_at >= $3
             AND NOT EXISTS (SELECT FROM notification.delivery_jobs r WHERE r.replay_of = j.id)
           ORDER BY j.created_at, j.id LIMIT $4)
         INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload,
           claim_group, replay_of, is_ready)
         SELECT fresh.id, dead.company_id, dead.message_id, dead.channel_id, dead.kind, dead.target, dead.payload, $5,
           dead.id, true
         FROM dead JOIN unnest($6::uuid[]) WITH ORDINALITY AS fresh(id, place) USING (place)",
        company.as_uuid(),
        body.channel.as_uuid(),
        body.since,
        MAX_REPLAYED,
        &*outbox.group,
        &ids
    )
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected())
}
