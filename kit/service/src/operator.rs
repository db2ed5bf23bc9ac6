//! Operators' routes, which no user's bearer opens: the operator's credential does, a secret that the services and the
//! operator's command share. `platform up` makes it and keeps it in the data directory; elsewhere it is
//! `PLATFORM_OPERATOR_TOKEN`. It is sent as a bearer.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use bearer::Refused;
use contract::settings::Kind;
use contract::{Reader, Variable};
use http::request::Parts;
use ring::hmac;

use crate::{ApiError, Core};

/// The operator's credential.
pub const TOKEN: Variable = Variable::new(
    "PLATFORM_OPERATOR_TOKEN",
    Kind::Secret,
    None,
    "Credential of the operators' commands and of the routes they call, 24 to 512 characters; up makes one and keeps it under secrets/, elsewhere those routes are closed without it",
);

/// Shorter ones can be guessed; the generated one has 32. Longer ones than 512 are no secret that a person handles.
const CHARACTERS: std::ops::RangeInclusive<usize> = 24..=512;
/// Separates this use of HMAC from any other; what is compared are digests, so that a comparison takes the same time
/// whatever was sent.
const PURPOSE: &[u8] = b"platform operator token";

/// A credential that requests are compared with; without one, none is right. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Secret(Option<Arc<Expected>>);

struct Expected {
    key: hmac::Key,
    tag: hmac::Tag,
}

impl Secret {
    /// This one.
    pub(crate) fn of(token: Option<&str>) -> Self {
        let expected = |token: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, PURPOSE);
            let tag = hmac::sign(&key, token.as_bytes());
            Arc::new(Expected { key, tag })
        };
        Self(token.map(expected))
    }

    /// Whether this is the credential; takes the same time for every wrong one of a length.
    pub(crate) fn is(&self, presented: &[u8]) -> bool {
        let expected = self.0.as_ref();
        expected.is_some_and(|expected| hmac::verify(&expected.key, presented, expected.tag.as_ref()).is_ok())
    }
}

/// Reads a credential: what is too short to be one, or cannot be sent, is refused.
pub fn read(reader: &mut Reader<'_>, variable: &Variable) -> Option<String> {
    let token = reader.optional(variable)?;
    let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || !CHARACTERS.contains(&token.len()) {
        let (min, max) = (CHARACTERS.start(), CHARACTERS.end());
        reader
            .refuse(variable.name, format!("must be {min} to {max} visible ASCII characters without blanks"));
    }
    Some(token)
}

/// What an operator's credential is compared with; without one no credential is right. Cheap to clone.
#[derive(Clone, Default)]
pub struct OperatorKey(Secret);

impl OperatorKey {
    /// Reads [`TOKEN`].
    pub fn read(reader: &mut Reader<'_>) -> Self {
        Self::of(read(reader, &TOKEN).as_deref())
    }

    /// For this credential.
    #[must_use]
    pub fn of(token: Option<&str>) -> Self {
        Self(Secret::of(token))
    }

    /// Whether this is the credential; takes the same time for every wrong one of a length.
    #[must_use]
    pub fn is(&self, presented: &str) -> bool {
        self.0.is(presented.as_bytes())
    }

    const fn is_set(&self) -> bool {
        self.0.0.is_some()
    }
}

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "OperatorKey(set)" } else { "OperatorKey(none)" })
    }
}

/// Proof that the request carries the operator's credential.
#[derive(Debug)]
#[non_exhaustive]
pub struct Operator;

impl<S> FromRequestParts<S> for Operator
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let token = bearer::token_of(&parts.headers).map_err(|refused| match refused {
            Refused::Ambiguous => ApiError::BadRequest("more than one Authorization header".into()),
            Refused::Missing | Refused::Invalid(_) | Refused::KeysUnavailable => ApiError::TokenMissing,
        })?;
        let core = Core::from_ref(state);
        let key = core.inside.operator();
        if key.is(token) {
            return Ok(Self);
        }
        if !key.is_set() {
            tracing::warn!(
                "an operators' route was called, and PLATFORM_OPERATOR_TOKEN is not set: it is closed"
            );
        }
        Err(ApiError::TokenInvalid("not the operator's credential"))
    }
}

#[cfg(test)]
mod tests {
    use contract::Settings;

    use super::*;

    fn read(token: &str) -> Result<OperatorKey, String> {
        let settings = Settings::default().with(TOKEN.name, token);
        let mut reader = settings.reader();
        let key = OperatorKey::read(&mut reader);
        reader.finish(key).map_err(|problems| problems.to_string())
    }

    #[test]
    fn only_the_whole_credential_is_right_and_without_one_nothing_is() {
        let token = "a".repeat(24);
        let key = read(&token).expect("long enough");
        assert!(key.is(&token));
        for wrong in ["", "a", &"a".repeat(23), &"a".repeat(25), &"b".repeat(24)] {
            assert!(!key.is(wrong), "{wrong}");
        }
        assert!(!OperatorKey::of(None).is(""));
    }

    #[test]
    fn a_credential_has_24_to_512_visible_characters() {
        assert!(read(&"x".repeat(512)).is_ok());
        for bad in [&"x".repeat(23), &"x".repeat(513), &format!("{} y", "x".repeat(24)), &"ä".repeat(30)] {
            let problem = read(bad).expect_err("refused");
            assert!(problem.contains("PLATFORM_OPERATOR_TOKEN: must be 24 to 512"), "{problem}");
            assert!(!problem.contains(bad.as_str()), "the secret is not told: {problem}");
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", OperatorKey::of(Some("secret"))), "OperatorKey(set)");
    }
}
