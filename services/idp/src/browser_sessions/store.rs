//! SQL of browser sessions. A transaction that changes one locks it before the client sessions below it.

use sqlx::{PgConnection, PgExecutor};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{BrowserSession, Seen};

/// Longest lifetime of a session.
const LIFETIME: Duration = Duration::hours(10);
/// Lifetime without an authorization request if none of its client sessions is live.
const IDLE: Duration = Duration::minutes(30);

/// Most sessions of a user, so that all can be ended within one request.
const MAX_SESSIONS: i64 = 200;
/// Most sessions ended at once, where there are many of an earlier version.
const MAX_ENDED: i64 = 100;
/// Most sessions listed; more than a person looks through, and all can be ended at once.
const MAX_LISTED: i64 = 100;

/// Finds the session of a cookie, if it or one of its client sessions is live.
pub(super) async fn find(
    db: impl PgExecutor<'_>,
    cookie_hash: &[u8],
    now: OffsetDateTime,
) -> sqlx::Result<Option<BrowserSession>> {
    sqlx::query_as!(
        BrowserSession,
        "SELECT b.id, b.user_id, b.authenticated_at, b.ends_at \
         FROM idp.browser_sessions b JOIN idp.users u ON u.id = b.user_id AND u.enabled \
         WHERE b.cookie_hash = $1 AND b.ends_at > $2 AND (b.idle_until > $2 \
           OR EXISTS (SELECT FROM idp.sessions s WHERE s.browser_session_id = b.id AND s.idle_until > $2))",
        cookie_hash,
        now
    )
    .fetch_optional(db)
    .await
}

/// Extends a session that [`find`] returned; false if it has ended meanwhile.
pub(crate) async fn keep(conn: &mut PgConnection, id: Uuid, now: OffsetDateTime) -> sqlx::Result<bool> {
    let kept = sqlx::query!(
        "UPDATE idp.browser_sessions SET idle_until = LEAST(ends_at, GREATEST(idle_until, $2)) WHERE id = $1",
        id,
        now.saturating_add(IDLE)
    )
    .execute(conn)
    .await?;
    Ok(kept.rows_affected() == 1)
}

/// Opens the session of a login; `None` if the user was disabled or removed meanwhile.
pub(crate) async fn open(
    conn: &mut PgConnection,
    cookie_hash: &[u8],
    user: Uuid,
    seen: &Seen,
    now: OffsetDateTime,
) -> sqlx::Result<Option<BrowserSession>> {
    sqlx::query_as!(
        BrowserSession,
        "INSERT INTO idp.browser_sessions(id, cookie_hash, user_id, authenticated_at, idle_until, ends_at, address, agent) \
         SELECT $1, $2, id, $4, $5, $6, $7, $8 FROM idp.users WHERE id = $3 AND enabled \
         RETURNING id, user_id, authenticated_at, ends_at",
        Uuid::new_v4(),
        cookie_hash,
        user,
        now,
        now.saturating_add(IDLE),
        now.saturating_add(LIFETIME),
        seen.address,
        seen.agent
    )
    .fetch_optional(conn)
    .await
}

/// Ends the session that the browser had before `new`. Client sessions of the same user move below the new one; those
/// of another user end.
pub(crate) async fn replace(
    conn: &mut PgConnection,
    old_cookie_hash: &[u8],
    new: &BrowserSession,
) -> sqlx::Result<()> {
    let old = sqlx::query!(
        "SELECT id, user_id FROM idp.browser_sessions WHERE cookie_hash = $1 FOR UPDATE",
        old_cookie_hash
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(old) = old else { return Ok(()) };
    if old.user_id == new.user_id {
        sqlx::query!(
            "UPDATE idp.sessions SET browser_session_id = $2 WHERE browser_session_id = $1",
            old.id,
            new.id
        )
        .execute(&mut *conn)
        .await?;
    }
    end(conn, old.id).await.map(drop)
}

/// Ends the user's oldest sessions beyond [`MAX_SESSIONS`] with `newest`. The caller holds the user's row.
pub(crate) async fn end_oldest(conn: &mut PgConnection, newest: &BrowserSession) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM idp.browser_sessions WHERE id IN (SELECT id FROM idp.browser_sessions \
         WHERE user_id = $1 AND id <> $2 ORDER BY authenticated_at DESC, id OFFSET $3 LIMIT $4)",
        newest.user_id,
        newest.id,
        MAX_SESSIONS - 1,
        MAX_ENDED
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends a session and the client sessions below it.
pub(crate) async fn end(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<bool> {
    let ended = sqlx::query!("DELETE FROM idp.browser_sessions WHERE id = $1", id).execute(conn).await?;
    Ok(ended.rows_affected() == 1)
}

/// Ends a session of this user.
pub(crate) async fn end_of_user(conn: &mut PgConnection, id: Uuid, user: Uuid) -> sqlx::Result<bool> {
    let ended = sqlx::query!("DELETE FROM idp.browser_sessions WHERE id = $1 AND user_id = $2", id, user)
        .execute(conn)
        .await?;
    Ok(ended.rows_affected() == 1)
}

/// A session as shown to its user.
pub(crate) struct Listed {
    pub(crate) id: Uuid,
    pub(crate) address: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) authenticated_at: OffsetDateTime,
    pub(crate) clients: Vec<String>,
}

/// A user's live sessions, newest first, at most [`MAX_LISTED`].
pub(crate) async fn of_user(
    db: impl PgExecutor<'_>,
    user: Uuid,
    now: OffsetDateTime,
) -> sqlx::Result<Vec<Listed>> {
    sqlx::query_as!(
        Listed,
        "SELECT b.id, b.address, b.agent, b.authenticated_at, \
         ARRAY(SELECT DISTINCT s.client_id FROM idp.sessions s WHERE s.browser_session_id = b.id AND s.idle_until > $2 \
               ORDER BY s.client_id) AS \"clients!\" \
         FROM idp.browser_sessions b WHERE b.user_id = $1 AND b.ends_at > $2 AND (b.idle_until > $2 \
           OR EXISTS (SELECT FROM idp.sessions s WHERE s.browser_session_id = b.id AND s.idle_until > $2)) \
         ORDER BY b.authenticated_at DESC, b.id LIMIT $3",
        user,
        now,
        MAX_LISTED
    )
    .fetch_all(db)
    .await
}

/// The browser session above a client session.
pub(crate) async fn above(db: impl PgExecutor<'_>, session: Uuid) -> sqlx::Result<Option<Uuid>> {
    let found = sqlx::query_scalar!("SELECT browser_session_id FROM idp.sessions WHERE id = $1", session)
        .fetch_optional(db)
        .await?;
    Ok(found.flatten())
}

/// Ends at most `batch` sessions that are no longer live; returns how many.
pub(crate) async fn end_idle(conn: &mut PgConnection, now: OffsetDateTime, batch: i64) -> sqlx::Result<u64> {
    let ended = sqlx::query!(
        "DELETE FROM idp.browser_sessions WHERE id IN \
         (SELECT b.id FROM idp.browser_sessions b WHERE b.idle_until <= $1 \
            AND NOT EXISTS (SELECT FROM idp.sessions s WHERE s.browser_session_id = b.id AND s.idle_until > $1) \
          ORDER BY b.idle_until LIMIT $2 FOR UPDATE SKIP LOCKED)",
        now,
        batch
    )
    .execute(conn)
    .await?;
    Ok(ended.rows_affected())
}
