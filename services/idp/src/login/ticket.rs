//! The `session_code` of a login form: the accepted request itself, sealed and bound to one browser. Nothing is stored
//! for a form that was only shown, so that showing forms fills no table, and a form outlives a restart. The binding is
//! a cookie: a form made for one browser cannot be posted by another (forged logins).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use serde::{Deserialize, Serialize};

use crate::keys::rules::{KeyError, KeyRing, Purpose, random_text, sha256};
use crate::login::rules::LoginRequest;

/// Cookie that binds forms to a browser.
pub(crate) const BROWSER_COOKIE: &str = "AUTH_SESSION_ID";
/// How long a form may stay open before it is shown anew.
pub(crate) const FORM_SECONDS: i64 = 30 * 60;
/// The one step that a login has, as Keycloak names steps.
pub(crate) const EXECUTION: &str = "5f0a1f0e-6f0d-4c57-9d3c-0c8a7f1f4b11";
/// Characters of [`random_text`].
const COOKIE_LENGTH: usize = 43;

/// A secret that one browser keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Browser(String);

impl Browser {
    /// The browser's cookie, when it sent a well-formed one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = sent.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == BROWSER_COOKIE)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let fits = value.len() == COOKIE_LENGTH && value.bytes().all(plain);
        fits.then(|| Self(value.to_owned()))
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_browser_is_known_by_a_well_formed_cookie_only() {
        let mut headers = HeaderMap::new();
        assert_eq!(Browser::of(&headers), None);
        let browser = Browser::new().expect("random");
        let line = format!("a=b; {BROWSER_COOKIE}={}; c=d", browser.as_str());
        headers.insert(COOKIE, HeaderValue::try_from(line).expect("ascii"));
        assert_eq!(Browser::of(&headers), Some(browser));
        for bad in ["AUTH_SESSION_ID=", "AUTH_SESSION_ID=short", "AUTH_SESSION_ID", "XAUTH_SESSION_ID=x"] {
            headers.insert(COOKIE, HeaderValue::from_static(bad));
            assert_eq!(Browser::of(&headers), None, "{bad}");
        }
    }
}
