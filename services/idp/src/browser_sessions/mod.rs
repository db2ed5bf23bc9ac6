//! The session of a browser, opened by a login and kept in a cookie until the browser is closed: authorization requests
//! that it makes meanwhile need no form. It lasts as long as one of its clients refreshes, at most ten hours, and ends with
//! a logout of any of them (Keycloak's user session).

pub(crate) mod store;

use http::HeaderMap;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cookies;
use crate::keys::rules::sha256;
use crate::state::App;

/// Name of the cookie.
pub(crate) const COOKIE: &str = "PLATFORM_SESSION";

/// A session that is live, of a user who is enabled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserSession {
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) authenticated_at: OffsetDateTime,
    pub(crate) ends_at: OffsetDateTime,
}

/// The session of the browser that sent these headers.
pub(crate) async fn of(app: &App, headers: &HeaderMap) -> sqlx::Result<Option<BrowserSession>> {
    match cookie_hash(headers) {
        Some(hash) => store::find(&app.core.pool, &hash, app.core.clock.now()).await,
        None => Ok(None),
    }
}

/// SHA-256 of the cookie's value.
pub(crate) fn cookie_hash(headers: &HeaderMap) -> Option<Vec<u8>> {
    cookies::secret(headers, COOKIE).map(|secret| sha256(secret.as_bytes()))
}
