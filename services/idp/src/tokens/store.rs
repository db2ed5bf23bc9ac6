//! SQL of client sessions and codes for the token route.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::users::rules::User;

/// A code that this transaction took, so that no other can.
#[derive(Debug)]
pub(crate) struct TakenCode {
    pub(crate) redirect_uri: String,
    pub(crate) scope: String,
    pub(crate) nonce: Option<String>,
    pub(crate) code_challenge: String,
    pub(crate) expires_at: OffsetDateTime,
}

/// A session and its user.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Uuid,
    pub(crate) client_id: String,
    pub(crate) authenticated_at: OffsetDateTime,
    pub(crate) idle_until: OffsetDateTime,
    pub(crate) ends_at: OffsetDateTime,
    pub(crate) refresh_hash: Option<Vec<u8>>,
    pub(crate) replaced_hash: Option<Vec<u8>>,
    pub(crate) replaced_at: Option<OffsetDateTime>,
    pub(crate) user: User,
}

/// A refresh token that was exchanged for the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced<'a> {
    /// SHA-256.
    pub(crate) hash: &'a [u8],
    pub(crate) at: OffsetDateTime,
}

/// The session and the user of a code, used or not.
pub(crate) async fn owner_of_code(
    db: impl PgExecutor<'_>,
    code_hash: &[u8],
) -> sqlx::Result<Option<(Uuid, Uuid)>> {
    let row = sqlx::query!(
        "SELECT s.id, s.user_id FROM idp.codes c JOIN idp.sessions s ON s.id = c.session_id \
         WHERE c.code_hash = $1",
        code_hash
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| (row.id, row.user_id)))
}

/// Takes an unused code. Of two concurrent exchanges, the second waits here for the first to commit.
pub(crate) async fn take_code(
    conn: &mut PgConnection,
    code_hash: &[u8],
    now: OffsetDateTime,
) -> sqlx::Result<Option<TakenCode>> {
    sqlx::query_as!(
        TakenCode,
        "UPDATE idp.codes SET used_at = $2 WHERE code_hash = $1 AND used_at IS NULL \
         RETURNING redirect_uri, scope, nonce, code_challenge, expires_at",
        code_hash,
        now
    )
    .fetch_optional(conn)
    .await
}

/// Reads a code that was taken before.
pub(crate) async fn used_code(conn: &mut PgConnection, code_hash: &[u8]) -> sqlx::Result<Option<TakenCode>> {
    sqlx::query_as!(
        TakenCode,
        "SELECT redirect_uri, scope, nonce, code_challenge, expires_at FROM idp.codes WHERE code_hash = $1",
        code_hash
    )
    .fetch_optional(conn)
    .await
}

/// Reads a session and locks it until the transaction ends.
pub(crate) async fn lock_session(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<Session>> {
    let row = sqlx::query!(
        "SELECT s.id, s.client_id, s.authenticated_at, s.idle_until, s.ends_at, s.refresh_hash, \
         s.replaced_hash, s.replaced_at, u.id AS user_id, u.username, u.enabled, u.email, u.first_name, u.last_name, u.service_client, \
         u.created_at, u.must_change_password, \
         EXISTS (SELECT FROM idp.totp t WHERE t.user_id = u.id) AS \"has_totp!\", \
         EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = u.id) AS \"has_passkey!\" \
         FROM idp.sessions s JOIN idp.users u ON u.id = s.user_id WHERE s.id = $1 FOR UPDATE OF s",
        id
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Session {
        id: row.id,
        client_id: row.client_id,
        authenticated_at: row.authenticated_at,
        idle_until: row.idle_until,
        ends_at: row.ends_at,
        refresh_hash: row.refresh_hash,
        replaced_hash: row.replaced_hash,
        replaced_at: row.replaced_at,
        user: User {
            id: row.user_id,
            username: row.username,
            enabled: row.enabled,
            email: row.email,
            first_name: row.first_name,
            last_name: row.last_name,
            service_client: row.service_client,
            created_at: row.created_at,
            must_change_password: row.must_change_password,
            has_totp: row.has_totp,
            has_passkey: row.has_passkey,
        },
    }))
}

/// Makes `refresh_hash` the only valid refresh token of a session, extends the session until `idle_until`, and
/// remembers the replaced token.
pub(crate) async fn keep_refresh(
    conn: &mut PgConnection,
    session: Uuid,
    refresh_hash: &[u8],
    idle_until: OffsetDateTime,
    replaced: Option<Replaced<'_>>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE idp.sessions SET refresh_hash = $2, idle_until = $3, replaced_hash = $4, replaced_at = $5 \
         WHERE id = $1",
        session,
        refresh_hash,
        idle_until,
        replaced.map(|replaced| replaced.hash),
        replaced.map(|replaced| replaced.at)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends a session together with its code and its refresh token.
pub(crate) async fn end_session(conn: &mut PgConnection, session: Uuid) -> sqlx::Result<bool> {
    let ended = sqlx::query!("DELETE FROM idp.sessions WHERE id = $1", session).execute(conn).await?;
    Ok(ended.rows_affected() == 1)
}

/// Ends at most `batch` expired sessions; returns how many.
pub(crate) async fn end_idle(conn: &mut PgConnection, now: OffsetDateTime, batch: i64) -> sqlx::Result<u64> {
    let ended = sqlx::query!(
        "DELETE FROM idp.sessions WHERE id IN \
         (SELECT id FROM idp.sessions WHERE idle_until <= $1 ORDER BY idle_until LIMIT $2 FOR UPDATE SKIP LOCKED)",
        now,
        batch
    )
    .execute(conn)
    .await?;
    Ok(ended.rows_affected())
}
