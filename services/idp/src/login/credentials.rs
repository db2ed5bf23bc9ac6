//! Checks a user name and a password, or the password of a signed-in user. Failures are counted (`failures.rs`).

use http::HeaderMap;
use uuid::Uuid;

use super::device::{Account, Device};
use super::failures::{self, FailedLogin};
use super::guard::{Source, client_address, site_text};
use crate::meter::Outcome;
use crate::pages::texts::Texts;
use crate::refusal::PageError;
use crate::state::App;
use crate::users;
use crate::users::passwords::CredentialDigest;
use crate::users::rules::User;

/// Longest user name that is looked up.
const MAX_USERNAME_BYTES: usize = 255;

/// The outcome of an attempt.
pub(super) enum Credentials {
    Good { user: Box<User>, password: CredentialDigest, source: Source },
    Bad { user: Option<Uuid>, failure: Failure },
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    Wrong,
    /// Too soon after failures from the same device or address; the password was not checked.
    Delayed,
    Disabled,
    /// The password was right, the second factor was not.
    WrongCode,
    DelayedCode,
    /// Its signature is not right, its user is another one, or it is known no more.
    WrongPasskey,
}

impl Failure {
    /// The page's message: the same for an unknown name, a wrong password and an attempt that came too soon, so that
    /// names cannot be probed.
    pub(super) const fn message(self, texts: &Texts) -> &'static str {
        match self {
            Self::Wrong | Self::Delayed => texts.invalid_credentials,
            Self::Disabled => texts.disabled,
            Self::WrongCode | Self::DelayedCode => texts.invalid_code,
            Self::WrongPasskey => texts.invalid_passkey,
        }
    }

    /// The reason in the audit row.
    const fn reason(self) -> &'static str {
        match self {
            Self::Wrong => "credentials",
            Self::Delayed => "too_many_failures",
            Self::Disabled => "disabled",
            Self::WrongCode => "second_factor",
            Self::DelayedCode => "too_many_second_factor_failures",
            Self::WrongPasskey => "passkey",
        }
    }

    const fn outcome(self) -> Outcome {
        match self {
            Self::Wrong | Self::Disabled | Self::WrongCode | Self::WrongPasskey => Outcome::Failed,
            Self::Delayed | Self::DelayedCode => Outcome::Delayed,
        }
    }
}

/// Checks a name and a password with the same work for every name, known or not; only the right password reveals that
/// an account is disabled. A right password stays counted as a failure until the caller reports success.
pub(super) async fn check(
    app: &App,
    headers: &HeaderMap,
    name: &str,
    password: &str,
) -> Result<Credentials, PageError> {
    let name = name.trim().to_lowercase();
    let login = if name.len() <= MAX_USERNAME_BYTES {
        users::store::find_login(&app.core.pool, &name).await?
    } else {
        None
    };
    let (user, hash) = login.map_or((None, None), |login| (Some(login.user), login.password_hash));
    let now = app.core.clock.unix_seconds();
    let digest = hash.as_deref().map(CredentialDigest::of);
    let account = user.as_ref().map(|user| Account { user: user.id, password: digest });
    let source =
        account.map_or_else(|| Source::address(headers), |account| source(app, headers, account, now));
    let admitted = account.is_none_or(|account| app.guard.admits(account.user, source, now));
    let hash = hash.filter(|_| admitted);
    let line = app.guard.line(account.map(|account| account.user), source, now);
    let fits = app.passwords.matches(line, password, hash).await?;
    Ok(match (user, digest) {
        (Some(user), Some(password)) if fits => good(app, user, password, source),
        (user, _) => {
            app.guard.failed(source, now);
            let failure = if admitted { Failure::Wrong } else { Failure::Delayed };
            Credentials::Bad { user: user.map(|user| user.id), failure }
        }
    })
}

fn good(app: &App, user: User, password: CredentialDigest, source: Source) -> Credentials {
    if user.enabled {
        return Credentials::Good { user: Box::new(user), password, source };
    }
    app.guard.succeeded(user.id, source);
    Credentials::Bad { user: Some(user.id), failure: Failure::Disabled }
}

/// The source of an attempt: a device that has signed in to this account before, else the address.
fn source(app: &App, headers: &HeaderMap, account: Account, now: i64) -> Source {
    let device = Device::of(&app.keys, headers, account, now);
    device.map_or_else(|| Source::address(headers), |device| Source::Device(device.id))
}

/// Checks the password of a signed-in user and returns its digest if it is right. Wrong ones count like those of a
/// login.
pub(crate) async fn check_again(
    app: &App,
    headers: &HeaderMap,
    user: Uuid,
    password: &str,
) -> Result<Option<CredentialDigest>, PageError> {
    let now = app.core.clock.unix_seconds();
    let hash = users::store::password_hash(&app.core.pool, user).await?;
    let digest = hash.as_deref().map(CredentialDigest::of);
    let source = source(app, headers, Account { user, password: digest }, now);
    let admitted = app.guard.admits(user, source, now);
    let hash = hash.filter(|_| admitted);
    let line = app.guard.line(Some(user), source, now);
    if app.passwords.matches(line, password, hash).await? {
        app.guard.succeeded(user, source);
        return Ok(digest);
    }
    let failure = if admitted { Failure::Wrong } else { Failure::Delayed };
    app.guard.failed(source, now);
    record_failure(app, headers, "account", Some(user), failure).await?;
    Ok(None)
}

/// Counts a failure in the metrics and for the audit row of its minute.
pub(super) async fn record_failure(
    app: &App,
    headers: &HeaderMap,
    client_id: &str,
    user: Option<Uuid>,
    failure: Failure,
) -> Result<(), PageError> {
    app.meter.login(failure.outcome());
    let address = client_address(headers).map(site_text).unwrap_or_default();
    let failed = FailedLogin { user, address: &address, client_id, reason: failure.reason() };
    failures::count(&app.core.pool, &failed, app.core.clock.now()).await?;
    Ok(())
}
