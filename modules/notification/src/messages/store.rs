//! `notification.messages`, `notification.message_reads`, and the jobs of a new message.

use contract::id::CompanyId;
use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::publish::{Jobs, Origin, Through, job_ids};
use super::rules::{Content, Message, MessageId, Sees};
use crate::app::Outbox;
use crate::channels::rules::{ChannelId, Kind};

pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) channel_id: Uuid,
    pub(super) subject_line: String,
    pub(super) body: String,
    pub(super) created_by: String,
    pub(super) created_at: OffsetDateTime,
    pub(super) read_at: Option<OffsetDateTime>,
}

impl Row {
    pub(super) fn message(self, company: CompanyId) -> Message {
        Message {
            id: self.id.into(),
            company_id: company,
            channel_id: self.channel_id.into(),
            subject_line: self.subject_line,
            body: self.body,
            created_by: self.created_by,
            created_at: self.created_at.into(),
            read_at: self.read_at.map(Into::into),
        }
    }
}

/// Finds a message of the company as the caller sees it, and the kind of its channel.
pub(super) async fn find(
    pool: &PgPool,
    permit: &Permit,
    id: MessageId,
) -> Result<Option<(Message, Kind)>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT m.id, m.channel_id, m.subject_line, m.body, m.created_by, m.created_at, c.kind,
                  (SELECT read_at FROM notification.message_reads r WHERE r.message_id = m.id AND r.kc_sub = $3) AS read_at
           FROM notification.messages m JOIN notification.channels c ON c.id = m.channel_id
           WHERE m.company_id = $1 AND m.id = $2"#,
        permit.company.as_uuid(),
        id.as_uuid(),
        permit.subject.as_str()
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let kind = Kind::of_word(&row.kind)?;
    let row = Row {
        id: row.id,
        channel_id: row.channel_id,
        subject_line: row.subject_line,
        body: row.body,
        created_by: row.created_by,
        created_at: row.created_at,
        read_at: row.read_at,
    };
    Ok(Some((row.message(permit.company), kind)))
}

/// Whether the caller subscribes to a channel as this member.
pub(super) async fn is_subscribed(
    pool: &PgPool,
    permit: &Permit,
    channel: ChannelId,
    member: Option<Uuid>,
) -> Result<bool, ApiError> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM notification.subscriptions
           WHERE company_id = $1 AND channel_id = $2 AND member_id = $3 AND email IS NOT NULL
             AND coalesce(kc_sub, $4) = $4) AS "found!""#,
        permit.company.as_uuid(),
        channel.as_uuid(),
        member,
        permit.subject.as_str()
    )
    .fetch_one(pool)
    .await?;
    Ok(found)
}

/// Finds the channel that a message goes through, and keeps it from being deleted until the transaction ends.
pub(crate) async fn through(tx: &mut CompanyTx, id: ChannelId) -> Result<Option<Through>, ApiError> {
    let company = tx.company();
    let row = sqlx::query!(
        r#"SELECT id, key, kind, target, disabled_reason IS NOT NULL AS "is_disabled!"
           FROM notification.channels WHERE company_id = $1 AND id = $2 AND deleted_at IS NULL FOR KEY SHARE"#,
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let kind = Kind::of_word(&row.kind)?;
    Ok(Some(Through { id, key: row.key, kind, target: row.target, is_disabled: row.is_disabled }))
}

/// Finds it by the channel's key, ignoring case.
pub(crate) async fn through_key(tx: &mut CompanyTx, key: &str) -> Result<Option<Through>, ApiError> {
    let company = tx.company();
    let id = sqlx::query_scalar!(
        "SELECT id FROM notification.channels
         WHERE company_id = $1 AND lower(key) = lower($2) AND deleted_at IS NULL",
        company.as_uuid(),
        key
    )
    .fetch_optional(tx.conn())
    .await?;
    match id {
        Some(id) => through(tx, id.into()).await,
        None => Ok(None),
    }
}

/// Lists the addresses of a channel: its target and its subscribers' addresses, without duplicates, in lower case.
pub(super) async fn recipients(
    tx: &mut CompanyTx,
    through: &Through,
    limit: i64,
) -> Result<Vec<String>, ApiError> {
    let company = tx.company();
    let found = sqlx::query_scalar!(
        r#"SELECT DISTINCT lower(address) AS "address!" FROM (
             SELECT email AS address FROM notification.subscriptions
             WHERE company_id = $1 AND channel_id = $2 AND email IS NOT NULL
             UNION ALL SELECT $3::text) AS addresses
           WHERE address IS NOT NULL ORDER BY 1 LIMIT $4"#,
        company.as_uuid(),
        through.id.as_uuid(),
        through.target.as_deref(),
        limit
    )
    .fetch_all(tx.conn())
    .await?;
    Ok(found)
}

/// Adds a message and returns its creation time; `None` when there is an event with this key.
pub(super) async fn insert(
    tx: &mut CompanyTx,
    id: MessageId,
    channel: ChannelId,
    content: &Content,
    actor: &str,
    origin: Option<&Origin>,
) -> Result<Option<OffsetDateTime>, ApiError> {
    let company = tx.company();
    let made = sqlx::query_scalar!(
        "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by,
           source_module, event_type, dedupe_key)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (company_id, source_module, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
         RETURNING created_at",
        id.as_uuid(),
        company.as_uuid(),
        channel.as_uuid(),
        content.subject_line,
        content.body,
        actor,
        origin.map(|origin| origin.source_module.as_str()),
        origin.map(|origin| origin.event_type.as_str()),
        origin.map(|origin| origin.dedupe_key.as_str())
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(made)
}

/// Finds the message of an event.
pub(crate) async fn of_event(
    tx: &mut CompanyTx,
    source_module: &str,
    dedupe_key: &str,
) -> Result<Option<MessageId>, ApiError> {
    let company = tx.company();
    let id = sqlx::query_scalar!(
        "SELECT id FROM notification.messages WHERE company_id = $1 AND source_module = $2 AND dedupe_key = $3",
        company.as_uuid(),
        source_module,
        dedupe_key
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(id.map(Into::into))
}

/// Adds the jobs of a message.
pub(super) async fn insert_jobs(
    tx: &mut CompanyTx,
    outbox: &Outbox,
    message: &Message,
    jobs: &Jobs,
) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload,
           claim_group, next_attempt_at, is_ready)
         SELECT job.id, $1, $2, $3, $4, job.target, $5, $6, now() + make_interval(secs => $7), $7 <= 0
         FROM unnest($8::uuid[], $9::text[]) AS job(id, target)",
        message.company_id.as_uuid(),
        message.id.as_uuid(),
        message.channel_id.as_uuid(),
        jobs.kind,
        jobs.payload,
        &*outbox.group,
        outbox.delay_seconds,
        &job_ids(jobs),
        &jobs.targets
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Records that the caller has read a message; returns false when that was already recorded.
pub(super) async fn mark(tx: &mut CompanyTx, id: MessageId) -> Result<bool, ApiError> {
    let actor = tx.actor().to_owned();
    let done = sqlx::query!(
        "INSERT INTO notification.message_reads(message_id, kc_sub) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        id.as_uuid(),
        actor
    )
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Reads when the caller read a message.
pub(super) async fn read_at(tx: &mut CompanyTx, id: MessageId) -> Result<OffsetDateTime, ApiError> {
    let actor = tx.actor().to_owned();
    let read = sqlx::query_scalar!(
        "SELECT read_at FROM notification.message_reads WHERE message_id = $1 AND kc_sub = $2",
        id.as_uuid(),
        actor
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(read)
}

/// Counts the unread messages that the caller sees, up to `limit`.
pub(super) async fn unread(pool: &PgPool, permit: &Permit, sees: Sees, limit: i64) -> Result<i64, ApiError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT FROM notification.messages m
             WHERE m.company_id = $1 AND ($2::bool OR m.channel_id IN (
               SELECT c.id FROM notification.channels c WHERE c.company_id = $1 AND c.kind = 'in_app'
               UNION ALL
               SELECT s.channel_id FROM notification.subscriptions s
               WHERE s.company_id = $1 AND s.member_id = $3 AND s.email IS NOT NULL
               AND coalesce(s.kc_sub, $4) = $4))
               AND NOT EXISTS (SELECT FROM notification.message_reads r WHERE r.message_id = m.id AND r.kc_sub = $4)
             LIMIT $5) AS unread"#,
        permit.company.as_uuid(),
        sees.is_all(),
        sees.member(),
        permit.subject.as_str(),
        limit
    )
    .fetch_one(pool)
    .await?;
    Ok(count)
}

/// Records that the caller has read all messages that the caller sees and whose creation time, as answers show it, is no
/// later than `before`; oldest first, up to `limit`. Returns how many were unread.
pub(super) async fn mark_all(
    tx: &mut CompanyTx,
    sees: Sees,
    before: OffsetDateTime,
    limit: i64,
) -> Result<u64, ApiError> {
    let (company, actor) = (tx.company(), tx.actor().to_owned());
    // Answers cut times to milliseconds.
    let end = before.truncate_to_millisecond().saturating_add(Duration::MILLISECOND);
    let done = sqlx::query!(
        "INSERT INTO notification.message_reads(message_id, kc_sub)
         SELECT m.id, $4 FROM notification.messages m
         WHERE m.company_id = $1 AND m.created_at < $5 AND ($2::bool OR m.channel_id IN (
           SELECT c.id FROM notification.channels c WHERE c.company_id = $1 AND c.kind = 'in_app'
           UNION ALL
           SELECT s.channel_id FROM notification.subscriptions s
           WHERE s.company_id = $1 AND s.member_id = $3 AND s.email IS NOT NULL
               AND coalesce(s.kc_sub, $4) = $4))
           AND NOT EXISTS (SELECT FROM notification.message_reads r WHERE r.message_id = m.id AND r.kc_sub = $4)
         ORDER BY m.created_at, m.id LIMIT $6 ON CONFLICT DO NOTHING",
        company.as_uuid(),
        sees.is_all(),
        sees.member(),
        actor,
        end,
        limit
    )
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected())
}
