//! SQL of a successful login: a client session and the code that redeems it.

use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::browser_sessions::BrowserSession;
use crate::login::rules::LoginRequest;

/// Lifetime of a code; a session whose code is not redeemed ends with it.
pub(crate) const CODE_LIFETIME: Duration = Duration::seconds(60);

/// Most client sessions of one browser session and client: more than anybody has tabs that signed in on their own.
/// Without a limit, a script could open so many that ending them takes longer than a request may.
const MAX_SESSIONS: i64 = 20;
/// Most sessions ended at once, where there are many of an earlier version.
const MAX_ENDED: i64 = 1_000;

/// Opens a client session below the browser's.
pub(super) async fn open_session(
    conn: &mut PgConnection,
    session: Uuid,
    browser: &BrowserSession,
    client_id: &str,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO idp.sessions(id, browser_session_id, user_id, client_id, authenticated_at, idle_until, ends_at) \
         VALUES ($1, $2, $3, $4, $5, LEAST($6::timestamptz, $7), $7)",
        session,
        browser.id,
        browser.user_id,
        client_id,
        browser.authenticated_at,
        now.saturating_add(CODE_LIFETIME),
        browser.ends_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends the oldest client sessions of the browser's session and the client beyond [`MAX_SESSIONS`] with `newest`. The
/// caller holds the browser session's row.
pub(super) async fn end_oldest(
    conn: &mut PgConnection,
    newest: Uuid,
    browser: &BrowserSession,
    client_id: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM idp.sessions WHERE id IN (SELECT id FROM idp.sessions \
         WHERE browser_session_id = $1 AND client_id = $2 AND id <> $3 ORDER BY idle_until DESC, id OFFSET $4 LIMIT $5)",
        browser.id,
        client_id,
        newest,
        MAX_SESSIONS - 1,
        MAX_ENDED
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the digest of a session's code and the values that the exchange must match.
pub(super) async fn add_code(
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
