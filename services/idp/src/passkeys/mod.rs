//! Passkeys: the two ceremonies of Web Authentication, by the crate `webauthn-rs`. Every ceremony asks the authenticator to
//! verify its user, so a passkey alone replaces a password with a second factor. Showing a form stores nothing: the state of
//! a ceremony is sealed in its form, and a used challenge is stored until its form has expired.

pub(crate) mod rules;
pub(crate) mod store;

use contract::CorrelationId;
use serde_json::json;
use service::ApiError;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::keys::rules::sha256;
use crate::login::ticket::FORM_SECONDS;
use crate::second_factors::event;
use crate::state::App;
use crate::users;
use crate::users::passwords::CredentialDigest;
use crate::users::rules::User;
use rules::Challenge;

/// How much longer than its form a used challenge is kept.
const SLACK_SECONDS: i64 = 60;

/// The outcome of an assertion.
pub(crate) enum Signed {
    By {
        user: Box<User>,
        passkey: CredentialDigest,
    },
    /// By a passkey of this user, whose account is disabled.
    Disabled(Uuid),
    /// Invalid, or used before; with the passkey's user if it is known.
    Wrong(Option<Uuid>),
}

/// Checks an assertion against the challenge of its form, and uses the challenge up. With `of` it must be of this user.
pub(crate) async fn take(
    app: &App,
    challenge: &Challenge,
    assertion: &str,
    of: Option<Uuid>,
    correlation: &CorrelationId,
) -> Result<Signed, ApiError> {
    let read = app.passkeys.as_ref().and_then(|party| Some((party, party.read(assertion)?)));
    let read = read.filter(|(_, (_, user))| of.is_none_or(|wanted| wanted == *user));
    let Some((party, (assertion, user))) = read else { return Ok(Signed::Wrong(None)) };
    let (id, now) = (assertion.get_credential_id(), app.core.clock.now());
    // A stranger who names somebody's id takes no lock.
    if !store::is_known(&app.core.pool, user, id).await? {
        return Ok(Signed::Wrong(None));
    }
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    // Every change of a user's credentials locks the user first.
    users::store::lock_password(tx.conn(), user).await?;
    let Some(stored) = store::lock(tx.conn(), user, id).await? else {
        tx.unchanged().await?;
        return Ok(Signed::Wrong(None));
    };
    let signed = match party.check(&assertion, challenge, stored.credential)? {
        Some(renewed) if use_up(tx.conn(), challenge, now).await? => {
            store::mark_used(tx.conn(), stored.id, &renewed, now).await?;
            users::store::find(&mut *tx.conn(), user).await?
        }
        _ => None,
    };
    match signed {
        Some(found) if found.enabled => {
            tx.commit(&event("passkey.used", user, json!({ "passkey": stored.id }))).await?;
            Ok(Signed::By { user: Box::new(found), passkey: CredentialDigest::of(id) })
        }
        Some(_) => {
            tx.unchanged().await?;
            Ok(Signed::Disabled(user))
        }
        None => {
            tx.unchanged().await?;
            Ok(Signed::Wrong(Some(user)))
        }
    }
}

/// False when the challenge was used before.
pub(crate) async fn use_up(
    conn: &mut sqlx::PgConnection,
    challenge: &Challenge,
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    // The form may have been shown this moment, and its answer may wait for the database past its end.
    let until = now.saturating_add(Duration::seconds(FORM_SECONDS + SLACK_SECONDS));
    store::use_challenge(conn, &sha256(challenge.as_bytes()), until).await
}
