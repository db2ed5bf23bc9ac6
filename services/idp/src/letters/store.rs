//! SQL of queued e-mails (letters) and links.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Kind;
use crate::pages::Lang;

/// Most waiting e-mails; with more, the mail server has been down for long, or somebody floods the queue.
const MAX_WAITING: i64 = 1_000;

/// The receiver of an e-mail.
pub(crate) enum Receiver<'a> {
    /// A user name or an e-mail address, as typed.
    Named(&'a str),
    User(Uuid),
}

/// Queues an e-mail; false if the queue is full.
pub(crate) async fn add(
    db: impl PgExecutor<'_>,
    kind: Kind,
    receiver: Receiver<'_>,
    lang: Lang,
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    let (name, user) = match receiver {
        Receiver::Named(name) => (Some(name), None),
        Receiver::User(user) => (None, Some(user)),
    };
    let added = sqlx::query!(
        "INSERT INTO idp.letters(id, kind, name, user_id, lang, requested_at, due_at) \
         SELECT $1, $2, $3, $4, $5, $6, $6 WHERE (SELECT count(*) FROM idp.letters) < $7",
        Uuid::now_v7(),
        kind.as_str(),
        name,
        user,
        lang.texts().lang,
        now,
        MAX_WAITING
    )
    .execute(db)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// An e-mail to send now.
pub(super) struct Waiting {
    pub(super) id: Uuid,
    pub(super) kind: String,
    pub(super) name: Option<String>,
    pub(super) user_id: Option<Uuid>,
    pub(super) lang: String,
    /// Includes this attempt.
    pub(super) attempts: i32,
}

/// Claims the e-mail that has waited longest. The lease ends at `again`.
pub(super) async fn claim(
    db: impl PgExecutor<'_>,
    now: OffsetDateTime,
    again: OffsetDateTime,
) -> sqlx::Result<Option<Waiting>> {
    sqlx::query_as!(
        Waiting,
        "UPDATE idp.letters SET attempts = attempts + 1, due_at = $2 WHERE id = \
         (SELECT id FROM idp.letters WHERE due_at <= $1 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) \
         RETURNING id, kind, name, user_id, lang, attempts",
        now,
        again
    )
    .fetch_optional(db)
    .await
}

/// Postpones an e-mail until `at`.
pub(super) async fn postpone(db: impl PgExecutor<'_>, id: Uuid, at: OffsetDateTime) -> sqlx::Result<()> {
    sqlx::query!("UPDATE idp.letters SET due_at = $2 WHERE id = $1", id, at).execute(db).await?;
    Ok(())
}

/// Removes an e-mail that was sent or abandoned.
pub(super) async fn remove(db: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM idp.letters WHERE id = $1", id).execute(db).await?;
    Ok(())
}

/// A link to create.
pub(super) struct NewLink<'a> {
    pub(super) hash: &'a [u8],
    pub(super) letter: Uuid,
    pub(super) user: Uuid,
    pub(super) kind: Kind,
    pub(super) now: OffsetDateTime,
}

/// Stores the link of an e-mail and removes that of an earlier attempt; false if the account already has `most` valid
/// links of this kind. An invitation is an operator's and replaces the oldest instead. A lock on the account's row
/// serialises the counting.
pub(super) async fn add_link(conn: &mut PgConnection, link: &NewLink<'_>, most: i64) -> sqlx::Result<bool> {
    let NewLink { hash, letter, user, kind, now } = *link;
    sqlx::query!("SELECT FROM idp.users WHERE id = $1 FOR NO KEY UPDATE", user).execute(&mut *conn).await?;
    sqlx::query!("DELETE FROM idp.links WHERE letter_id = $1", letter).execute(&mut *conn).await?;
    if kind == Kind::Invitation {
        sqlx::query!(
            "DELETE FROM idp.links WHERE link_hash IN (SELECT link_hash FROM idp.links \
             WHERE user_id = $1 AND kind = $2 ORDER BY created_at DESC OFFSET $3)",
            user,
            kind.as_str(),
            most - 1
        )
        .execute(&mut *conn)
        .await?;
    }
    let added = sqlx::query!(
        "INSERT INTO idp.links(link_hash, letter_id, user_id, kind, created_at, expires_at) \
         SELECT $1, $2, $3, $4, $5, $6 \
         WHERE (SELECT count(*) FROM idp.links WHERE user_id = $3 AND kind = $4 AND expires_at > $5) < $7",
        hash,
        letter,
        user,
        kind.as_str(),
        now,
        now.saturating_add(kind.lifetime()),
        most
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// The user and the kind of a valid link.
pub(super) async fn find_link(
    db: impl PgExecutor<'_>,
    hash: &[u8],
    now: OffsetDateTime,
) -> sqlx::Result<Option<(Uuid, String)>> {
    let row = sqlx::query!(
        "SELECT user_id, kind FROM idp.links WHERE link_hash = $1 AND expires_at > $2",
        hash,
        now
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| (row.user_id, row.kind)))
}

/// Uses a link up; false if it was used or removed, or has expired.
pub(super) async fn take_link(
    conn: &mut PgConnection,
    hash: &[u8],
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    let taken = sqlx::query!("DELETE FROM idp.links WHERE link_hash = $1 AND expires_at > $2", hash, now)
        .execute(conn)
        .await?;
    Ok(taken.rows_affected() == 1)
}

/// Removes at most `batch` expired links; returns how many.
pub(crate) async fn remove_expired(
    conn: &mut PgConnection,
    now: OffsetDateTime,
    batch: i64,
) -> sqlx::Result<u64> {
    let removed = sqlx::query!(
        "DELETE FROM idp.links WHERE link_hash IN (SELECT link_hash FROM idp.links WHERE expires_at <= $1 LIMIT $2)",
        now,
        batch
    )
    .execute(conn)
    .await?;
    Ok(removed.rows_affected())
}
