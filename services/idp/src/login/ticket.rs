//! The `session_code` of a login form: the accepted request itself, sealed and bound to one browser. Nothing is stored
//! for a form that was only shown, so that showing forms fills no table, and a form outlives a restart. The binding is
//! a cookie: a form made for one browser cannot be posted by another (forged logins).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::cookies;
use crate::keys::rules::{KeyError, KeyRing, Purpose, random_text, sha256};
use crate::login::rules::LoginRequest;

/// Cookie that binds forms to a browser.
pub(crate) const BROWSER_COOKIE: &str = "AUTH_SESSION_ID";
/// How long a form may stay open before it is shown anew.
pub(crate) const FORM_SECONDS: i64 = 30 * 60;
/// The one step that a login has, as Keycloak names steps.
pub(crate) const EXECUTION: &str = "5f0a1f0e-6f0d-4c57-9d3c-0c8a7f1f4b11";

/// A secret that one browser keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Browser(String);

impl Browser {
    /// The browser's cookie, when it sent a well-formed one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        cookies::secret(headers, BROWSER_COOKIE).map(Self)
    }

    /// A new one.
    pub(crate) fn new() -> Result<Self, KeyError> {
        random_text().map(Self)
    }

    /// The cookie's value.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn digest(&self) -> String {
        URL_SAFE_NO_PAD.encode(sha256(self.0.as_bytes()))
    }
}

/// What a form holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) request: LoginRequest,
    /// Tells forms of one browser apart.
    pub(crate) tab_id: String,
    browser: String,
    issued_at: i64,
}

impl Ticket {
    /// A ticket for a form that is shown now.
    pub(crate) fn new(request: LoginRequest, browser: &Browser, now: i64) -> Result<Self, KeyError> {
        let mut tab_id = random_text()?;
        tab_id.truncate(11);
        Ok(Self { request, tab_id, browser: browser.digest(), issued_at: now })
    }

    /// The `session_code`.
    pub(crate) fn seal(&self, keys: &KeyRing) -> Result<String, KeyError> {
        keys.seal(Purpose::SessionCode, &serde_json::to_value(self)?)
    }

    /// Reads a `session_code`; `None` when this provider did not make it.
    pub(crate) fn open(keys: &KeyRing, session_code: &str) -> Option<Self> {
        keys.open(Purpose::SessionCode, session_code)
    }

    /// Whether the form was shown to this browser.
    pub(crate) fn is_of(&self, browser: &Browser) -> bool {
        self.browser == browser.digest()
    }

    /// Whether the form was open for too long.
    pub(crate) const fn is_stale(&self, now: i64) -> bool {
        now.saturating_sub(self.issued_at) >= FORM_SECONDS
    }
}
