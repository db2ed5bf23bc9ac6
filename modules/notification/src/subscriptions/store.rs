//! `notification.subscriptions`.

use contract::id::{CompanyId, MemberId};
use service::{ApiError, CompanyTx};
use time::OffsetDateTime;

use super::rules::Subscription;
use crate::channels::rules::{ChannelId, Kind};

/// Reads the kind of a channel that is not deleted, and keeps it from being deleted until the transaction ends.
pub(super) async fn kind_of(tx: &mut CompanyTx, id: ChannelId) -> Result<Option<Kind>, ApiError> {
    let company = tx.company();
    let kind = sqlx::query_scalar!(
        "SELECT kind FROM notification.channels
         WHERE company_id = $1 AND id = $2 AND deleted_at IS NULL FOR KEY SHARE",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(kind.map(|kind| Kind::of_word(&kind)).transpose()?)
}

/// Reads the caller's subscription as this member, locked until the transaction ends; `None` too for that of another
/// login, which the member row had before.
pub(super) async fn lock(
    tx: &mut CompanyTx,
    channel: ChannelId,
    member: MemberId,
) -> Result<Option<Subscription>, ApiError> {
    let (company, actor) = (tx.company(), tx.actor().to_owned());
    let row = sqlx::query!(
        "SELECT email, updated_at, kc_sub FROM notification.subscriptions
         WHERE company_id = $1 AND channel_id = $2 AND member_id = $3 FOR UPDATE",
        company.as_uuid(),
        channel.as_uuid(),
        member.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    let own = row.filter(|row| row.kc_sub.as_ref() == Some(&actor));
    Ok(own.map(|row| subscription(company, channel, member, row.email, row.updated_at)))
}

/// Inserts or updates the caller's subscription as this member.
pub(super) async fn save(
    tx: &mut CompanyTx,
    channel: ChannelId,
    member: MemberId,
    email: Option<&str>,
) -> Result<Subscription, ApiError> {
    let (company, actor) = (tx.company(), tx.actor().to_owned());
    let row = sqlx::query!(
        "INSERT INTO notification.subscriptions(company_id, channel_id, member_id, email, kc_sub)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (channel_id, member_id) DO UPDATE
           SET email = excluded.email, kc_sub = excluded.kc_sub, updated_at = now()
         RETURNING email, updated_at",
        company.as_uuid(),
        channel.as_uuid(),
        member.as_uuid(),
        email,
        actor
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(subscription(company, channel, member, row.email, row.updated_at))
}

fn subscription(
    company: CompanyId,
    channel: ChannelId,
    member: MemberId,
    email: Option<String>,
    updated_at: OffsetDateTime,
) -> Subscription {
    Subscription {
        company_id: company,
        channel_id: channel,
        member_id: member,
        email,
        updated_at: updated_at.into(),
    }
}
