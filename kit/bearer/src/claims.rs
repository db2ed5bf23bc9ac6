//! The claims of a token whose signature is valid: strict parsing, then issuer, audience and times. Pure. Roles and
//! groups are never read; `azp` is kept, but never stands in for the audience.

use std::time::Duration;

use contract::Subject;
use ring::digest;
use serde::Deserialize;
use serde_json::Number;

use crate::{EXPIRED, Refused};

/// Allowed clock skew between provider and platform, in seconds; the same in every service.
pub(crate) const LEEWAY_SECONDS: i64 = 30;

/// Prefix that Keycloak gives the user behind a client's service account.
const SERVICE_ACCOUNT_PREFIX: &str = "service-account-";

/// The claims of a verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// `sub`: the only claim that names the caller.
    pub subject: Subject,
    /// The subject's representation in the log: the first bytes of its SHA-256.
    pub subject_hash: u64,
    /// `azp`: the client that obtained the token; identifies an app's backend.
    pub authorized_party: Option<String>,
    /// `exp` in Unix seconds.
    pub expires_at: i64,
    /// `preferred_username`; for display and to recognise service accounts.
    pub preferred_username: Option<String>,
    /// `name`; for display.
    pub name: Option<String>,
    /// `email`; for display.
    pub email: Option<String>,
}

impl Claims {
    /// Whether the token belongs to a client's own account (`preferred_username` is `service-account-…`).
    #[must_use]
    pub fn is_service_account(&self) -> bool {
        self.preferred_username.as_deref().is_some_and(|name| name.starts_with(SERVICE_ACCOUNT_PREFIX))
    }
}

/// The required form of a token's payload; a claim of another type is refused.
#[derive(Debug, Deserialize)]
pub(crate) struct RawClaims {
    iss: String,
    aud: Audience,
    sub: String,
    exp: Number,
    nbf: Option<Number>,
    azp: Option<String>,
    preferred_username: Option<String>,
    name: Option<String>,
    email: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// What the claims are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) audience: &'a str,
    pub(crate) now: i64,
}

pub(crate) fn accept(raw: RawClaims, expected: Expected<'_>) -> Result<Claims, Refused> {
    if raw.iss != expected.issuer {
        return Err(Refused::Invalid("wrong issuer"));
    }
    if !raw.aud.contains(expected.audience) {
        return Err(Refused::Invalid("wrong audience"));
    }
    let expires_at = unix_seconds(&raw.exp).ok_or(Refused::Invalid("exp is out of range"))?;
    if expires_at.saturating_add(LEEWAY_SECONDS) <= expected.now {
        return Err(Refused::Invalid(EXPIRED));
    }
    check_not_before(raw.nbf.as_ref(), expected.now)?;
    let subject = Subject::parse(&raw.sub).ok_or(Refused::Invalid("sub is empty, too long or not text"))?;
    Ok(Claims {
        subject_hash: subject_hash(&subject),
        subject,
        authorized_party: raw.azp,
        expires_at,
        preferred_username: raw.preferred_username,
        name: raw.name,
        email: raw.email,
    })
}

/// Computed once per token, because the log names the subject of every request.
pub(crate) fn subject_hash(subject: &Subject) -> u64 {
    let digest = digest::digest(&digest::SHA256, subject.as_str().as_bytes());
    let short = digest.as_ref().iter().take(size_of::<u64>());
    short.fold(0_u64, |hash, byte| (hash << 8) | u64::from(*byte))
}

fn check_not_before(not_before: Option<&Number>, now: i64) -> Result<(), Refused> {
    let Some(number) = not_before else { return Ok(()) };
    let not_before = unix_seconds(number).ok_or(Refused::Invalid("nbf is out of range"))?;
    if not_before > now.saturating_add(LEEWAY_SECONDS) {
        Err(Refused::Invalid("not valid yet"))
    } else {
        Ok(())
    }
}

/// Whole seconds; RFC 7519 allows fractions, which are truncated.
fn unix_seconds(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let whole = Duration::try_from_secs_f64(number.as_f64()?).ok()?;
        i64::try_from(whole.as_secs()).ok()
    })
}

impl Audience {
    fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Many(many) => many.iter().any(|audience| audience == wanted),
        }
    }
}
