//! A request's body, read whole within the service's limit. Its shape is parsed by the handler, after the decision
//! (the order of checks every module keeps), hence two steps: extract [`RawBody`], then [`RawBody::parse`].

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use contract::fields::{self, FromBody};
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::ApiError;
use crate::layers::BodyLimit;

/// A body and whether it was declared as JSON.
#[derive(Debug)]
pub struct RawBody {
    bytes: Bytes,
    is_json: bool,
}

impl RawBody {
    /// The body as JSON.
    ///
    /// # Errors
    /// `BAD_REQUEST` for another content type or text that is no JSON.
    pub fn json(&self) -> Result<Value, ApiError> {
        if !self.is_json {
            return Err(ApiError::BadRequest("the content type must be application/json".into()));
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
        let limit = request.extensions().get::<BodyLimit>().copied().unwrap_or_default().0;
        let is_json = declares_json(&request);
        let body = Limited::new(request.into_body(), limit).collect().await;
        match body {
            Ok(body) => Ok(Self { bytes: body.to_bytes(), is_json }),
            Err(error) if error.is::<LengthLimitError>() => Err(ApiError::TooLarge { limit }),
            Err(_) => Err(ApiError::BadRequest("the body did not arrive whole".into())),
        }
    }
}

fn declares_json(request: &Request) -> bool {
    let declared =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = declared.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}
