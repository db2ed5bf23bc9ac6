//! The caller of a request: the verified bearer and the correlation id.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts};
use bearer::Refused;
use contract::Subject;
use contract::correlation::{self, CorrelationId};
use http::request::Parts;

use crate::{ApiError, Core};

/// A verified bearer. `subject` is the only claim that decides anything; `authorized_party` identifies the client of
/// the identity provider that obtained the token.
#[derive(Clone, Debug)]
pub struct Caller {
    /// `sub`.
    pub subject: Subject,
    /// `azp`.
    pub authorized_party: Option<String>,
    /// The token itself, to pass on to internal routes that verify it again.
    pub token: String,
}

impl<S> FromRequestParts<S> for Caller
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let core = Core::from_ref(state);
        let token = bearer::token_of(&parts.headers).map_err(refusal)?;
        let claims = core.tokens.verify(token).await.map_err(refusal)?;
        if let Some(scope) = telemetry::Scope::present() {
            scope.called_by(claims.subject_hash);
        }
        Ok(Self {
            subject: claims.subject.clone(),
            authorized_party: claims.authorized_party.clone(),
            token: token.to_owned(),
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is a `map_err` function")]
fn refusal(refused: Refused) -> ApiError {
    match refused {
        Refused::Missing => ApiError::TokenMissing,
        Refused::Invalid(why) => {
            tracing::debug!(why, "a bearer was refused");
            ApiError::TokenInvalid(why)
        }
        Refused::Ambiguous => ApiError::BadRequest("more than one Authorization header".into()),
        Refused::KeysUnavailable => ApiError::unavailable("idp"),
    }
}

/// The request's correlation id, set by the outermost layer.
#[derive(Clone, Debug)]
pub struct Correlation(pub CorrelationId);

impl<S: Send + Sync> FromRequestParts<S> for Correlation {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let known = parts.extensions.get::<CorrelationId>().cloned();
        let header =
            || CorrelationId::accept(parts.headers.get(correlation::HEADER).map(http::HeaderValue::as_bytes));
        Ok(Self(known.unwrap_or_else(header)))
    }
}
