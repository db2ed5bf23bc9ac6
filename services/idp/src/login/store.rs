//! SQL of a succeeded login: one session and the code that redeems it.

use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::login::rules::LoginRequest;

/// How long a code may be redeemed; a session that nobody redeemed ends with it.
pub(crate) const CODE_LIFETIME: Duration = Duration::seconds(60);
/// How long a session lasts at most, however often it is refreshed.
const SESSION_LIFETIME: Duration = Duration::hours(10);

/// Opens a session of an enabled user; false when the user was disabled or removed meanwhile.
pub(crate) async fn open_session(
    conn: &mut PgConnection,
    session: Uuid,
    user: Uuid,
    client_id: &str,
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    let opened = sqlx::query!(
        "INSERT INTO idp.sessions(id, user_id, client_id, authenticated_at, idle_until, ends_at) \
         SELECT $1, id, $3, $4, $5, $6 FROM idp.users WHERE id = $2 AND enabled",
        session,
        user,
        client_id,
        now,
        now.saturating_add(CODE_LIFETIME),
        now.saturating_add(SESSION_LIFETIME)
    )
    .execute(conn)
    .await?;
    Ok(opened.rows_affected() == 1)
}

/// Keeps the digest of a session's code with what the exchange must match.
pub(crate) async fn add_code(
    conn: &mut PgConnection,
    session: Uuid,
    code_hash: &[u8],
    request: &LoginRequest,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO idp.codes(code_hash, session_id, redirect_uri, scope, nonce, code_challenge, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        code_hash,
        session,
        request.target.redirect_uri,
        request.scope.as_str(),
        request.nonce,
        request.code_challenge,
        now.saturating_add(CODE_LIFETIME)
    )
    .execute(conn)
    .await?;
    Ok(())
}
