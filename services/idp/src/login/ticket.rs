//! The `session_code` of a login form: the accepted request itself, sealed and bound to one browser. Nothing is stored
//! for a form that was only shown, so that showing forms fills no table, and a form outlives a restart. The binding is
//! a cookie: a form made for one browser cannot be posted by another (forged logins).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cookies;
use crate::keys::rules::{KeyError, KeyRing, Purpose, random_text, sha256};
use crate::login::rules::LoginRequest;
use crate::passkeys::rules::Challenge;
use crate::users::passwords::CredentialDigest;

/// Cookie that binds forms to a browser.
pub(crate) const BROWSER_COOKIE: &str = "AUTH_SESSION_ID";
/// How long a form may stay open before it is shown anew.
pub(crate) const FORM_SECONDS: i64 = 30 * 60;
/// The step that asks for a password, a passkey or a second factor, as Keycloak names steps.
pub(crate) const EXECUTION: &str = "5f0a1f0e-6f0d-4c57-9d3c-0c8a7f1f4b11";
/// The step that asks for a new password, as Keycloak names it.
pub(crate) const UPDATE_PASSWORD: &str = "UPDATE_PASSWORD";

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

/// Where a login leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Destination {
    /// To the client that asked.
    Client(LoginRequest),
    /// To a page of the account.
    Account { page: AccountPage, ui_locales: Option<String> },
}

/// The pages of the account that a login may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AccountPage {
    Account,
    SecondFactor,
    Passkeys,
}

impl Destination {
    /// Keycloak's account pages are those of a client `account`.
    pub(crate) fn client_id(&self) -> &str {
        match self {
            Self::Client(request) => &request.client_id,
            Self::Account { .. } => "account",
        }
    }

    /// `ui_locales` of the request.
    pub(crate) fn ui_locales(&self) -> Option<&str> {
        match self {
            Self::Client(LoginRequest { ui_locales, .. }) | Self::Account { ui_locales, .. } => {
                ui_locales.as_deref()
            }
        }
    }

    /// User name that the form begins with.
    pub(crate) fn login_hint(&self) -> &str {
        match self {
            Self::Client(request) => request.login_hint.as_deref().unwrap_or_default(),
            Self::Account { .. } => "",
        }
    }
}

/// What a form asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    Password,
    SecondFactor(Proved),
    NewPassword(Proved),
}

/// Who has given the right password, and the right code where there is a second factor. Another one meanwhile makes it worth
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proved {
    pub(crate) user: Uuid,
    pub(crate) password: CredentialDigest,
    /// The one whose code was given.
    pub(crate) second_factor: Option<CredentialDigest>,
}

/// What signs a user in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The password, and the second factor where there is one.
    Password(Proved),
    /// A passkey, which has verified its user.
    Passkey { user: Uuid, passkey: CredentialDigest },
}

impl Proof {
    /// Whom it signs in.
    pub(crate) const fn user(self) -> Uuid {
        match self {
            Self::Password(Proved { user, .. }) | Self::Passkey { user, .. } => user,
        }
    }
}

/// What a form holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) destination: Destination,
    pub(crate) stage: Stage,
    /// What a passkey may sign instead of what the form asks for.
    pub(crate) challenge: Option<Challenge>,
    /// Tells forms of one browser apart.
    pub(crate) tab_id: String,
    browser: String,
    issued_at: i64,
}

impl Ticket {
    /// A ticket for a form that is shown now.
    pub(crate) fn new(
        destination: Destination,
        stage: Stage,
        challenge: Option<Challenge>,
        browser: &Browser,
        now: i64,
    ) -> Result<Self, KeyError> {
        let mut tab_id = random_text()?;
        tab_id.truncate(11);
        Ok(Self { destination, stage, challenge, tab_id, browser: browser.digest(), issued_at: now })
    }

    /// The `session_code`.
    pub(crate) fn seal(&self, keys: &KeyRing) -> Result<String, KeyError> {
        keys.seal(Purpose::SessionCode, &serde_json::to_value(self)?)
    }

    /// Reads a `session_code`; `None` when this provider did not make it.
    pub(crate) fn open(keys: &KeyRing, session_code: &str) -> Option<Self> {
        keys.open(Purpose::SessionCode, session_code)
    }

    /// `execution` of the form's address.
    pub(crate) const fn execution(&self) -> &'static str {
        match self.stage {
            Stage::Password | Stage::SecondFactor(_) => EXECUTION,
            Stage::NewPassword(_) => UPDATE_PASSWORD,
        }
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
