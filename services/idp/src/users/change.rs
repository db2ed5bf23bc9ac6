//! A user's change of password: checks the policy, ends the other sessions, and writes the audit row in the same
//! transaction.

use contract::CorrelationId;
use serde_json::json;
use service::{ApiError, AuditEvent};
use tokio::sync::Semaphore;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::passwords::CredentialDigest;
use super::policy::{self, Unfit};
use super::queue::Line;
use super::rules::User;
use super::store;
use crate::form::Params;
use crate::login::ticket::Proved;
use crate::refusal::PageError;
use crate::state::App;

/// What entitles a user to another password.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entitled {
    /// The current password, given in this browser session, which stays.
    InSession { password: CredentialDigest, session: Uuid },
    /// What a login has proved so far.
    AtLogin(Proved),
}

/// A new password, typed twice.
pub(crate) struct NewPassword {
    password: Zeroizing<String>,
    again: Zeroizing<String>,
}

impl NewPassword {
    /// Reads a form, by Keycloak's field names.
    pub(crate) fn of(form: &Params) -> Self {
        let field = |name| Zeroizing::new(form.get(name).unwrap_or_default().to_owned());
        Self { password: field("password-new"), again: field("password-confirm") }
    }

    /// The password, as typed first.
    pub(crate) fn text(&self) -> &str {
        &self.password
    }
}

/// Changes the password of a user who is still entitled to it when it is written, and ends the user's sessions except the
/// present one. Returns the digest of the new password.
pub(crate) async fn change(
    app: &App,
    user: &User,
    entitled: Entitled,
    wanted: &NewPassword,
    correlation: &CorrelationId,
) -> Result<Result<CredentialDigest, Unfit>, PageError> {
    if let Err(unfit) = fits(user, wanted).await? {
        return Ok(Err(unfit));
    }
    // The user has given the current password, so the attempt counts as a known device's.
    let line = Line::Device(user.id);
    let stored = store::password_hash(&app.core.pool, user.id).await?;
    if app.passwords.matches(line, &wanted.password, stored).await? {
        return Ok(Err(Unfit::Same));
    }
    let hash = app.passwords.hash(line, &wanted.password).await?;
    let mut tx = app.core.begin_as(&user.id.to_string(), Some(correlation.as_str())).await?;
    let (is_entitled, kept) = match entitled {
        Entitled::InSession { password, session } => {
            (store::lock_password_of(tx.conn(), user.id, password).await?, Some(session))
        }
        Entitled::AtLogin(proved) => (store::lock_factors(tx.conn(), proved).await?, None),
    };
    if !is_entitled {
        tx.unchanged().await?;
        return Ok(Err(Unfit::NotPresent));
    }
    store::replace_password(tx.conn(), user.id, &hash, false).await?;
    store::end_sessions(tx.conn(), user.id, kept).await?;
    let subject = format!("user:{}", user.id);
    let payload = json!({ "reason": "chosen_by_user" });
    tx.commit(&AuditEvent { company: None, action: "user.password_changed", subject, payload }).await?;
    Ok(Ok(CredentialDigest::of(hash)))
}

/// Limits strength checks to one at a time, because each occupies a core.
static LOOKING: Semaphore = Semaphore::const_new(1);

/// Checks that the password was typed the same twice and is strong enough. Runs off the runtime's workers, because a
/// long password takes milliseconds.
pub(crate) async fn fits(user: &User, wanted: &NewPassword) -> Result<Result<(), Unfit>, ApiError> {
    if *wanted.password != *wanted.again {
        return Ok(Err(Unfit::Different));
    }
    let (user, password) = (user.clone(), wanted.password.clone());
    let place = LOOKING.acquire().await.map_err(ApiError::internal)?;
    // The permit is released when the check ends, even if the waiting request is cancelled earlier.
    let look = move || {
        let checked = policy::check(&password, &user);
        drop(place);
        checked
    };
    tokio::task::spawn_blocking(look).await.map_err(ApiError::internal)
}
