//! The session of a browser, opened by a login and kept in a cookie until the browser is closed: further authorization
//! requests need no form. It lasts while one of its clients refreshes, at most ten hours, and ends when any of them
//! logs out (Keycloak's user session).

pub(crate) mod agent;
pub(crate) mod store;

use http::HeaderMap;
use http::header::USER_AGENT;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cookies;
use crate::keys::rules::sha256;
use crate::login::guard::client_address;
use crate::state::App;

/// Name of the cookie.
pub(crate) const COOKIE: &str = "PLATFORM_SESSION";

/// A live session of an enabled user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserSession {
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) authenticated_at: OffsetDateTime,
    pub(crate) ends_at: OffsetDateTime,
}

/// Finds the session of the browser that sent these headers.
pub(crate) async fn of(app: &App, headers: &HeaderMap) -> sqlx::Result<Option<BrowserSession>> {
    match cookie_hash(headers) {
        Some(hash) => store::find(&app.core.pool, &hash, app.core.clock.now()).await,
        None => Ok(None),
    }
}

/// What a user sees of the browser behind a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) address: Option<String>,
    pub(crate) agent: Option<String>,
}

impl Seen {
    /// Reads a request's headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let agent = headers.get(USER_AGENT).and_then(|line| line.to_str().ok()).and_then(agent::name);
        Self { address: client_address(headers).map(|address| address.to_string()), agent }
    }
}

/// SHA-256 of the cookie's value.
pub(crate) fn cookie_hash(headers: &HeaderMap) -> Option<Vec<u8>> {
    cookies::secret(headers, COOKIE).map(|secret| sha256(secret.as_bytes()))
}
