//! `notification.channel_secrets`: sealed secrets.

use service::sealed::SealedColumn;
use service::{ApiError, CompanyTx};
use sqlx::PgExecutor;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::channels::rules::{ChannelId, Kind};

/// Every column of sealed texts, and which of them still sign.
pub(crate) const SEALED: [SealedColumn; 2] = [
    SealedColumn { table: TABLE, column: "secret", needed: LIVE },
    SealedColumn {
        table: TABLE,
        column: "previous_secret",
        needed: "previous_expires_at > now() AND EXISTS (SELECT FROM notification.channels c WHERE c.id = channel_id AND c.deleted_at IS NULL)",
    },
];
const TABLE: &str = "notification.channel_secrets";
const LIVE: &str =
    "EXISTS (SELECT FROM notification.channels c WHERE c.id = channel_id AND c.deleted_at IS NULL)";

/// A channel's secrets as they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The current secret, sealed; only webhooks have one.
    pub(crate) secret: Option<Vec<u8>>,
    /// The previous secret, sealed.
    pub(crate) previous: Option<Vec<u8>>,
    /// Until when the previous secret signs.
    pub(crate) previous_expires_at: Option<OffsetDateTime>,
}

/// Stores the secret of a new channel.
pub(crate) async fn insert(tx: &mut CompanyTx, id: ChannelId, sealed: &[u8]) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO notification.channel_secrets(channel_id, secret, sealed) VALUES ($1, $2, true)",
        id.as_uuid(),
        sealed
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Locks a channel that is not deleted until the transaction ends, and reads its kind and secrets.
pub(super) async fn lock(tx: &mut CompanyTx, id: ChannelId) -> Result<Option<(Kind, Kept)>, ApiError> {
    let company = tx.company();
    let kind = sqlx::query_scalar!(
        "SELECT kind FROM notification.channels
         WHERE company_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    let Some(kind) = kind else { return Ok(None) };
    // A separate statement, because one that waits for a lock reads other tables as they were before it waited.
    let row = sqlx::query!(
        r#"SELECT secret, previous_secret AS "previous", previous_expires_at
           FROM notification.channel_secrets WHERE channel_id = $1"#,
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    let kept = row.map_or(Kept { secret: None, previous: None, previous_expires_at: None }, |row| Kept {
        secret: Some(row.secret),
        previous: row.previous,
        previous_expires_at: row.previous_expires_at,
    });
    Ok(Some((Kind::of_word(&kind)?, kept)))
}

/// Replaces the secret; the previous one signs until `until`.
pub(super) async fn rotate(
    tx: &mut CompanyTx,
    id: ChannelId,
    sealed: &[u8],
    until: OffsetDateTime,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE notification.channel_secrets
         SET previous_secret = secret, previous_expires_at = $3, secret = $2, sealed = true WHERE channel_id = $1",
        id.as_uuid(),
        sealed,
        until
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// What a delivery attempt needs to know of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ForAttempt {
    pub(crate) is_deleted: bool,
    pub(crate) is_disabled: bool,
    pub(crate) kept: Kept,
}

/// Reads this for several channels, in any order.
pub(crate) async fn for_attempts(
    db: impl PgExecutor<'_>,
    channels: &[Uuid],
) -> sqlx::Result<Vec<(ChannelId, ForAttempt)>> {
    let rows = sqlx::query!(
        r#"SELECT c.id AS "id!", c.deleted_at IS NOT NULL AS "is_deleted!", c.disabled_reason IS NOT NULL AS "is_disabled!",
                  s.secret AS "secret?", s.previous_secret AS "previous?", s.previous_expires_at
           FROM notification.channels c LEFT JOIN notification.channel_secrets s ON s.channel_id = c.id
           WHERE c.id = ANY($1)"#,
        channels
    )
    .fetch_all(db)
    .await?;
    let of_row = rows.into_iter().map(|row| {
        let kept =
            Kept { secret: row.secret, previous: row.previous, previous_expires_at: row.previous_expires_at };
        (row.id.into(), ForAttempt { is_deleted: row.is_deleted, is_disabled: row.is_disabled, kept })
    });
    Ok(of_row.collect())
}
