//! A request body, read whole within its limit. Modules parse its shape after the decision, in the fixed order of
//! checks. A module's handler takes [`Body`] after its `Permit`: axum runs extractors in argument order and reads the
//! body last. A handler that asks for its decision itself takes an [`UnreadBody`].
//!
//! A client may hold the end of its body back for minutes, and a decision must not be older than that. An operation's
//! handler therefore runs only when its body has arrived ([`arrived`]); what is wrong with the body is still told after
//! the decision.

use std::convert::Infallible;

use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use contract::fields::{self, FromBody};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::ApiError;
use crate::layers::BodyLimit;

/// A body, and whether its content type is JSON.
#[derive(Debug)]
pub struct RawBody {
    bytes: Bytes,
    is_json: bool,
}

impl RawBody {
    /// Whether there is no body at all, for operations whose body is optional.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// `BAD_REQUEST` for another content type, no body, or text that is not JSON.
    pub fn json(&self) -> Result<Value, ApiError> {
        if !self.is_json {
            return Err(ApiError::BadRequest("the content type must be application/json".into()));
        }
        if self.is_empty() {
            return Err(ApiError::BadRequest("a body is required: JSON".into()));
        }
        serde_json::from_slice(&self.bytes)
            .map_err(|error| ApiError::BadRequest(format!("the body is not JSON: {error}").into()))
    }

    /// The body as `T`.
    ///
    /// # Errors
    /// `BAD_REQUEST` when it is not a JSON object, `VALIDATION_ERROR` naming every wrong field.
    pub fn parse<T: FromBody>(&self) -> Result<T, ApiError> {
        let value = self.json()?;
        if !value.is_object() {
            return Err(ApiError::BadRequest("the body must be a JSON object".into()));
        }
        fields::parse(&value).map_err(ApiError::Validation)
    }
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Self::Rejection> {
        UnreadBody(request).read().await
    }
}

/// A body that arrived before its handler ran, or why it did not.
#[derive(Clone, Debug)]
struct Arrived(Result<Bytes, Fault>);

#[derive(Clone, Copy, Debug)]
enum Fault {
    TooLarge,
    Incomplete,
}

/// Waits until the body has arrived, or is known to be past `limit` or incomplete.
pub(crate) async fn arrived(request: Request, limit: usize) -> Request {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Arrived(collect(body, limit).await));
    Request::from_parts(parts, axum::body::Body::empty())
}

/// Copies the chunks together, because a list of one-byte chunks would take many times the limit.
async fn collect(mut body: axum::body::Body, limit: usize) -> Result<Bytes, Fault> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.map_err(|_| Fault::Incomplete)?.into_data() else { continue };
        if chunk.len() > limit.saturating_sub(whole.len()) {
            return Err(Fault::TooLarge);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// A body that is read after the decision.
#[derive(Debug)]
pub struct UnreadBody(Request);

impl UnreadBody {
    /// Reads the body.
    ///
    /// # Errors
    /// 413 past its limit; `BAD_REQUEST` when the body arrives incomplete.
    pub async fn read(self) -> Result<RawBody, ApiError> {
        let limit = self.0.extensions().get::<BodyLimit>().copied().unwrap_or_default().0;
        let is_json = declares_json(&self.0);
        let (mut parts, body) = self.0.into_parts();
        let read = match parts.extensions.remove::<Arrived>() {
            Some(Arrived(arrived)) => arrived,
            None => collect(body, limit).await,
        };
        match read {
            Ok(bytes) => Ok(RawBody { bytes, is_json }),
            Err(Fault::TooLarge) => Err(ApiError::TooLarge { limit }),
            Err(Fault::Incomplete) => Err(ApiError::BadRequest("the body did not arrive whole".into())),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for UnreadBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(request))
    }
}

/// A body parsed as `T`.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<T: FromBody, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Self::Rejection> {
        UnreadBody(request).read().await?.parse().map(Self)
    }
}

fn declares_json(request: &Request) -> bool {
    let declared =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = declared.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}
