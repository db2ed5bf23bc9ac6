//! The second factor of a login: one-time codes from an app (RFC 6238) or a passkey, and recovery codes that replace
//! either. The first one ends the user's other sessions: every session of a user with a second factor has shown it.

pub(crate) mod rules;
pub(crate) mod store;

use contract::CorrelationId;
use serde_json::json;
use service::{ApiError, AuditEvent};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::keys::rules::{KeyRing, Purpose};
use crate::passkeys;
use crate::state::App;
use crate::users::passwords::CredentialDigest;

/// The code that a user entered at the second step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Code(u32),
    /// Normalised by [`rules::recovery_code`].
    Recovery(String),
    /// Neither.
    Unreadable,
}

impl Answer {
    /// Reads the two fields of the form.
    pub(crate) fn of(code: Option<&str>, recovery: Option<&str>) -> Self {
        match (code, recovery) {
            (Some(code), _) => rules::code(code).map_or(Self::Unreadable, Self::Code),
            (None, Some(code)) => rules::recovery_code(code).map_or(Self::Unreadable, Self::Recovery),
            (None, None) => Self::Unreadable,
        }
    }
}

/// Uses a code up. Returns the digest of its second factor, or `None` if the code is wrong or was used before.
pub(crate) async fn take(
    app: &App,
    user: Uuid,
    answer: &Answer,
    correlation: &CorrelationId,
) -> Result<Option<CredentialDigest>, ApiError> {
    let now = app.core.clock.unix_seconds();
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    let totp = store::lock(tx.conn(), user).await?;
    let kind = match answer {
        Answer::Code(code) => {
            let step = totp.and_then(|totp| rules::step_of(&totp.secret, *code, now, totp.last_step));
            match step {
                Some(step) => store::use_step(tx.conn(), user, step).await?.then_some("one_time_code"),
                None => None,
            }
        }
        Answer::Recovery(code) => {
            let taken = store::use_recovery_code(tx.conn(), user, &tag(&app.keys, user, code)).await?;
            taken.then_some("recovery_code")
        }
        Answer::Unreadable => None,
    };
    // A recovery code replaces whichever factor there is.
    let shown = present(tx.conn(), user).await?.into_iter().next();
    let Some((kind, shown)) = kind.zip(shown) else {
        tx.unchanged().await?;
        return Ok(None);
    };
    let payload = json!({ "kind": kind });
    tx.commit(&event("second_factor.used", user, payload)).await?;
    Ok(Some(shown))
}

/// Digests of the user's second factors, the one-time codes first; their row is locked until the transaction ends.
pub(crate) async fn present(conn: &mut PgConnection, user: Uuid) -> sqlx::Result<Vec<CredentialDigest>> {
    let totp = store::lock(conn, user).await?.map(|totp| CredentialDigest::of(totp.secret));
    let passkeys = passkeys::store::digests(conn, user).await?;
    Ok(totp.into_iter().chain(passkeys).collect())
}

/// The stored digest of a recovery code.
pub(crate) fn tag(keys: &KeyRing, user: Uuid, code: &str) -> Vec<u8> {
    keys.tag(Purpose::RecoveryCode, &[user.as_bytes(), code.as_bytes()].concat())
}

pub(crate) fn event(action: &'static str, user: Uuid, payload: serde_json::Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("user:{user}"), payload }
}
