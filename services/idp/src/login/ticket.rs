//! The `session_code` of a login form: the accepted request itself, sealed and bound to one browser. Showing a form
//! stores nothing, so it cannot fill a table, and a form survives a restart. A cookie binds the form: a form for one
//! browser cannot be posted by another (login CSRF).

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
/// How long a form may stay open before it must be shown again.
pub(crate) const FORM_SECONDS: i64 = 30 * 60;
/// Keycloak's `execution` id of the step that asks for a password, a passkey or a second factor.
pub(crate) const EXECUTION: &str = "5f0a1f0e-6f0d-4c57-9d3c-0c8a7f1f4b11";
/// Keycloak's name of the step that asks for a new password.
pub(crate) const UPDATE_PASSWORD: &str = "UPDATE_PASSWORD";

/// A secret that binds forms to one browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Browser(String);

impl Browser {
    /// The secret in the browser's cookie, if it is well-formed.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        cookies::secret(headers, BROWSER_COOKIE).map(Self)
    }

    /// Generates a secret.
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
    /// To the requesting client.
    Client(LoginRequest),
    /// To an account page.
    Account { page: AccountPage, ui_locales: Option<String> },
}

/// The account pages that a login may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AccountPage {
    Account,
    SecondFactor,
    Passkeys,
}

impl Destination {
    /// The client's id; in Keycloak the account pages belong to a client `account`.
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

    /// User name that the form is prefilled with.
    pub(crate) fn login_hint(&self) -> &str {
        match self {
            Self::Client(request) => request.login_hint.as_deref().unwrap_or_default(),
            Self::Account { .. } => "",
        }
    }
}

/// The step of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    Password,
    SecondFactor(Proved),
    NewPassword(Proved),
}

/// The user and the credentials proved so far: the password, and the second factor once its code was given. A change of
/// either makes this invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proved {
    pub(crate) user: Uuid,
    pub(crate) password: CredentialDigest,
    /// The second factor whose code was given.
    pub(crate) second_factor: Option<CredentialDigest>,
}

/// Proof of a user's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The password, and the second factor where there is one.
    Password(Proved),
    /// A passkey whose authenticator has verified its user.
    Passkey { user: Uuid, passkey: CredentialDigest },
}

impl Proof {
    /// The user it identifies.
    pub(crate) const fn user(self) -> Uuid {
        match self {
            Self::Password(Proved { user, .. }) | Self::Passkey { user, .. } => user,
        }
    }
}

/// The content of a `session_code`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) destination: Destination,
    pub(crate) stage: Stage,
    /// The challenge that a passkey may sign instead.
    pub(crate) challenge: Option<Challenge>,
    /// Distinguishes the forms of one browser.
    pub(crate) tab_id: String,
    browser: String,
    issued_at: i64,
}

impl Ticket {
    /// Creates the ticket of a form that is shown now.
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

    /// Seals the ticket as a `session_code`.
    pub(crate) fn seal(&self, keys: &KeyRing) -> Result<String, KeyError> {
        keys.seal(Purpose::SessionCode, &serde_json::to_value(self)?)
    }

    /// Opens a `session_code`; `None` if this provider did not create it.
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

    /// Whether the form was open too long.
    pub(crate) const fn is_stale(&self, now: i64) -> bool {
        now.saturating_sub(self.issued_at) >= FORM_SECONDS
    }
}
