//! `notification.subscriptions` and `former_addresses`.

use contract::id::{CompanyId, MemberId};
use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::rules::{OwnSubscription, Subscription};
use crate::channels::rules::{ChannelId, Kind};

/// Days for which a former address is kept, after each replay through its channel anew: the longest ladder takes 120, and
/// dead deliveries are kept for 90.
const ADDRESS_DAYS: i32 = 210;

/// Reads the kind of a channel that is not deleted, and the caller's subscription as this member: not that of another
/// login, which the member row had before.
pub(super) async fn find(
    pool: &PgPool,
    permit: &Permit,
    channel: ChannelId,
    member: MemberId,
) -> Result<Option<(Kind, OwnSubscription)>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT c.kind, s.email AS "email?", s.updated_at AS "updated_at?"
           FROM notification.channels c LEFT JOIN notification.subscriptions s
             ON s.channel_id = c.id AND s.member_id = $3 AND (s.kc_sub IS NULL OR s.kc_sub = $4)
           WHERE c.company_id = $1 AND c.id = $2 AND c.deleted_at IS NULL"#,
        permit.company.as_uuid(),
        channel.as_uuid(),
        member.as_uuid(),
        permit.subject.as_str()
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let own = OwnSubscription {
        company_id: permit.company,
        channel_id: channel,
        member_id: member,
        email: row.email,
        updated_at: row.updated_at.map(Into::into),
    };
    Ok(Some((Kind::of_word(&row.kind)?, own)))
}

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
    sqlx::query!(
        "INSERT INTO notification.former_addresses(company_id, channel_id, member_id, email)
         SELECT company_id, channel_id, member_id, lower(email) FROM notification.subscriptions
         WHERE company_id = $1 AND channel_id = $2 AND member_id = $3 AND lower(email) IS DISTINCT FROM lower($4)
           AND email IS NOT NULL
         ON CONFLICT (company_id, member_id, channel_id, email) DO UPDATE SET until = excluded.until",
        company.as_uuid(),
        channel.as_uuid(),
        member.as_uuid(),
        email
    )
    .execute(tx.conn())
    .await?;
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

/// Deletes former addresses to which no delivery can remain.
pub(crate) async fn sweep(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM notification.former_addresses WHERE until < now() - make_interval(days => $1)",
        ADDRESS_DAYS
    )
    .execute(pool)
    .await?;
    Ok(())
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
