//! `notification.channel_health` and the channels' `disabled_reason`.

use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;

use super::rules::{Disabled, FAILING_HOURS, Health, MAX_CONSECUTIVE_DEAD};
use crate::backlog::{self, Change};
use crate::channels::rules::ChannelId;

/// Reads the health of a channel that is not deleted.
pub(super) async fn find(pool: &PgPool, permit: &Permit, id: ChannelId) -> Result<Option<Health>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT c.disabled_reason, h.consecutive_dead AS "consecutive_dead?", h.dead_since, h.last_success_at
           FROM notification.channels c LEFT JOIN notification.channel_health h ON h.channel_id = c.id
           WHERE c.company_id = $1 AND c.id = $2 AND c.deleted_at IS NULL"#,
        permit.company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Health {
        channel_id: id,
        disabled_reason: row.disabled_reason.map(|reason| Disabled::of_word(&reason)).transpose()?,
        consecutive_dead: row.consecutive_dead.unwrap_or_default(),
        dead_since: row.dead_since.map(Into::into),
        last_success_at: row.last_success_at.map(Into::into),
    }))
}

/// Records a successful delivery. Writes at most once a second, so that deliveries to one channel do not wait for each
/// other.
pub(crate) async fn succeeded(tx: &mut CompanyTx, id: ChannelId) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO notification.channel_health(channel_id, last_success_at)
         SELECT $1, now() WHERE NOT EXISTS (
           SELECT FROM notification.channel_health
           WHERE channel_id = $1 AND consecutive_dead = 0 AND last_success_at > now() - interval '1 second')
         ON CONFLICT (channel_id) DO UPDATE SET consecutive_dead = 0, dead_since = NULL, last_success_at = now()",
        id.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Records a dead delivery; returns true when there have been so many in a row, for so long, that the channel is to be
/// disabled.
pub(crate) async fn died(tx: &mut CompanyTx, id: ChannelId) -> Result<bool, ApiError> {
    let is_failing = sqlx::query_scalar!(
        r#"INSERT INTO notification.channel_health AS h (channel_id, consecutive_dead, dead_since) VALUES ($1, 1, now())
           ON CONFLICT (channel_id) DO UPDATE
             SET consecutive_dead = h.consecutive_dead + 1, dead_since = COALESCE(h.dead_since, now())
           RETURNING (h.consecutive_dead >= $2 AND h.dead_since <= now() - make_interval(hours => $3)) AS "failing!""#,
        id.as_uuid(),
        MAX_CONSECUTIVE_DEAD,
        FAILING_HOURS
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(is_failing)
}

/// Disables a channel; returns its key unless it was already disabled or is deleted.
pub(super) async fn disable(
    tx: &mut CompanyTx,
    id: ChannelId,
    reason: Disabled,
) -> Result<Option<String>, ApiError> {
    let key = sqlx::query_scalar!(
        "UPDATE notification.channels SET disabled_reason = $2
         WHERE id = $1 AND disabled_reason IS NULL AND deleted_at IS NULL RETURNING key",
        id.as_uuid(),
        reason.word()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(key)
}

/// Enables a channel and resets its dead deliveries; returns `None` when there is no such channel and false when it was
/// not disabled.
pub(super) async fn enable(tx: &mut CompanyTx, id: ChannelId) -> Result<Option<bool>, ApiError> {
    let company = tx.company();
    let reason = sqlx::query_scalar!(
        "SELECT disabled_reason FROM notification.channels
         WHERE company_id = $1 AND id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    let Some(reason) = reason else { return Ok(None) };
    if reason.is_none() {
        return Ok(Some(false));
    }
    sqlx::query!("UPDATE notification.channels SET disabled_reason = NULL WHERE id = $1", id.as_uuid())
        .execute(tx.conn())
        .await?;
    sqlx::query!(
        "UPDATE notification.channel_health SET consecutive_dead = 0, dead_since = NULL WHERE channel_id = $1",
        id.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    // Deliveries that waited only for this are due now.
    backlog::begin(tx, Change::Release(id)).await?;
    Ok(Some(true))
}
