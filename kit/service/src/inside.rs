//! Internal routes that give names, directories or roles: who opens a port is not trusted for it. Such a route names its
//! asker by one of three: the services' credential, which services and modules send with their own questions; the operator's
//! credential; or a user's bearer, which opens what that user may read. A route that no user may ask takes an [`Insider`], one
//! that only services call an [`OwnCall`], the others a [`Reader`].
//!
//! The services' credential is `PLATFORM_SERVICE_TOKEN`, or made of the operator's where that is set, so that one secret is
//! enough where all services have it. Without either, only users' bearers open these routes.

use std::fmt;

use axum::extract::{FromRef, FromRequestParts};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bearer::Refused;
use contract::envelope::code;
use contract::settings::Kind;
use contract::{Reader as Settings, Subject, Variable};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use serde_json::Value;

use crate::operator::{self, OperatorKey, Secret};
use crate::{ApiError, Caller, Core};

/// The services' credential.
pub const TOKEN: Variable = Variable::new(
    "PLATFORM_SERVICE_TOKEN",
    Kind::Secret,
    None,
    "Credential of the questions that services and modules ask each other on their own, 24 to 512 characters, the same for all; without it, made of PLATFORM_OPERATOR_TOKEN",
);

/// What carries it: the request may have a user's bearer, too.
pub const HEADER: HeaderName = HeaderName::from_static("x-platform-service");
/// Separates the credential from everything else that is made of the operator's, which nobody gets back from it.
const PURPOSE: &[u8] = b"platform services' credential";

/// The credentials inside: what is sent and what is accepted. Cheap to clone.
#[derive(Clone, Default)]
pub struct Inside {
    sent: Option<HeaderValue>,
    service: Secret,
    operator: OperatorKey,
}

impl Inside {
    /// Reads [`TOKEN`] and [`operator::TOKEN`].
    pub fn read(reader: &mut Settings<'_>) -> Self {
        let (service, operator) = (operator::read(reader, &TOKEN), operator::read(reader, &operator::TOKEN));
        Self::of(service.as_deref(), operator.as_deref())
    }

    /// For these credentials.
    #[must_use]
    pub fn of(service: Option<&str>, operator: Option<&str>) -> Self {
        let service = service.map(ToOwned::to_owned).or_else(|| operator.map(made_of));
        let sent = service.as_deref().and_then(|token| HeaderValue::from_str(token).ok());
        let sent = sent.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Self { sent, service: Secret::of(service.as_deref()), operator: OperatorKey::of(operator) }
    }

    /// What questions of this service carry.
    #[must_use]
    pub const fn sent(&self) -> Option<&HeaderValue> {
        self.sent.as_ref()
    }

    /// Whether a request is another service's own question. Takes the same time for every wrong credential of a length.
    #[must_use]
    pub fn is_service(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        self.service.is(value.as_bytes())
    }

    /// What opens the operators' routes.
    pub(crate) const fn operator(&self) -> &OperatorKey {
        &self.operator
    }

    /// A service's or the operator's request; `None` for everybody else's.
    fn insider(&self, headers: &HeaderMap) -> Result<Option<Insider>, ApiError> {
        if headers.contains_key(HEADER) {
            let refused = || ApiError::TokenInvalid("not the services' credential");
            return self.is_service(headers).then_some(Some(Insider)).ok_or_else(refused);
        }
        let token = bearer::token_of(headers).ok();
        Ok(token.filter(|token| self.operator.is(token)).map(|_| Insider))
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.sent.is_some() { "Inside(set)" } else { "Inside(none)" })
    }
}

/// The services' credential of an operator's.
fn made_of(operator: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, operator.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, PURPOSE))
}

/// Proof that a request is a service's own question or an operator's.
#[derive(Debug)]
#[non_exhaustive]
pub struct Insider;

impl<S> FromRequestParts<S> for Insider
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let core = Core::from_ref(state);
        if let Some(insider) = core.inside.insider(&parts.headers)? {
            return Ok(insider);
        }
        if core.inside.sent.is_none() {
            tracing::warn!(
                "a service's question is refused: neither PLATFORM_SERVICE_TOKEN nor PLATFORM_OPERATOR_TOKEN is set"
            );
        }
        Err(match bearer::token_of(&parts.headers) {
            Err(Refused::Missing) => ApiError::TokenMissing,
            Ok(_) | Err(_) => ApiError::TokenInvalid("no bearer opens this route"),
        })
    }
}

/// Proof that a request is a service's own: it carries the services' credential. The operator's does not open such a route.
#[derive(Debug)]
#[non_exhaustive]
pub struct OwnCall;

impl<S> FromRequestParts<S> for OwnCall
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        if Core::from_ref(state).inside.is_service(&parts.headers) {
            return Ok(Self);
        }
        let has_none = !parts.headers.contains_key(HEADER)
            && matches!(bearer::token_of(&parts.headers), Err(Refused::Missing));
        Err(if has_none {
            ApiError::TokenMissing
        } else {
            ApiError::TokenInvalid("not the services' credential")
        })
    }
}

/// Who reads: an insider, whom the route asks no more, or a verified bearer's subject, for whom the route has a guard.
#[derive(Debug)]
pub enum Reader {
    /// A service or an operator.
    Insider,
    /// A user or an app's backend.
    Subject(Box<Caller>),
}

impl Reader {
    /// Lets a subject read only what is its own.
    ///
    /// # Errors
    /// 403 for another's.
    pub fn of_itself(&self, subject: &Subject) -> Result<(), ApiError> {
        match self {
            Self::Subject(caller) if caller.subject != *subject => Err(ApiError::Forbidden {
                code: code::FORBIDDEN,
                message: "a bearer opens only what is its own subject's".into(),
                details: Value::Null,
            }),
            Self::Insider | Self::Subject(_) => Ok(()),
        }
    }

    /// Lets no subject read.
    ///
    /// # Errors
    /// 403 for a subject.
    pub fn inside_only(&self) -> Result<(), ApiError> {
        match self {
            Self::Insider => Ok(()),
            Self::Subject(_) => Err(ApiError::Forbidden {
                code: code::FORBIDDEN,
                message: "only services and operators may read this".into(),
                details: Value::Null,
            }),
        }
    }
}

impl<S> FromRequestParts<S> for Reader
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let insider = Core::from_ref(state).inside.insider(&parts.headers)?;
        match insider {
            Some(Insider) => Ok(Self::Insider),
            None => Ok(Self::Subject(Box::new(Caller::from_request_parts(parts, state).await?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATOR: &str = "the-credential-of-an-operator";
    const SERVICE: &str = "the-credential-of-the-services";

    fn carrying(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (HEADER, HeaderValue::from_str(value).expect("text"))).collect()
    }

    #[test]
    fn a_service_knows_another_by_the_one_credential_and_by_nothing_else() {
        let inside = Inside::of(Some(SERVICE), Some(OPERATOR));
        assert!(inside.is_service(&carrying(&[SERVICE])));
        for wrong in [&[][..], &[""], &["x"], &[OPERATOR], &[SERVICE, SERVICE], &[&made_of(OPERATOR)]] {
            assert!(!inside.is_service(&carrying(wrong)), "{wrong:?}");
        }
        assert!(!Inside::default().is_service(&carrying(&[""])), "without one nobody is a service");
    }

    #[test]
    fn without_one_of_its_own_it_is_made_of_the_operators_and_is_not_the_operators() {
        let (one, other) = (Inside::of(None, Some(OPERATOR)), Inside::of(None, Some(OPERATOR)));
        let sent = one.sent().expect("made").to_str().expect("text");
        assert!(other.is_service(&carrying(&[sent])));
        assert!(!one.is_service(&carrying(&[OPERATOR])));
        assert!(!one.operator().is(sent), "who has it is no operator");
        assert!(!Inside::of(None, Some("another-operator-of-another")).is_service(&carrying(&[sent])));
        assert_eq!(Inside::default().sent(), None);
        assert_eq!(format!("{one:?}"), "Inside(set)");
    }

    #[test]
    fn it_has_24_to_512_visible_characters() {
        for (token, fits) in [(24, true), (512, true), (23, false), (513, false)]
            .map(|(length, fits)| ("x".repeat(length), fits))
        {
            let settings = contract::Settings::default().with(TOKEN.name, &token);
            let mut reader = settings.reader();
            let inside = Inside::read(&mut reader);
            let read = reader.finish(inside).map_err(|problems| problems.to_string());
            assert_eq!(read.is_ok(), fits, "{} {read:?}", token.len());
            if let Err(problem) = read {
                assert!(problem.contains("PLATFORM_SERVICE_TOKEN: must be 24 to 512"), "{problem}");
                assert!(!problem.contains(&token), "the secret is not told");
            }
        }
    }
}
