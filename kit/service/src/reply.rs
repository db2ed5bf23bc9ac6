//! The only place that renders responses: `Data` and `Created` for success, `ApiError` for refusals.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use contract::ErrorBody;
use contract::envelope::DataBody;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;

use crate::ApiError;
use crate::account::Reason;
use crate::error::RETRY_AFTER_SECONDS;

/// Initial buffer for a response, enough for a single object; a longer one reallocates.
const USUAL_BYTES: usize = 1_024;

/// 200 `{"data": …}`.
#[derive(Debug)]
pub struct Data<T>(pub T);

/// 201 `{"data": …}`.
#[derive(Debug)]
pub struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Data<T> {
    fn into_response(self) -> Response {
        render(StatusCode::OK, self.0)
    }
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        render(StatusCode::CREATED, self.0)
    }
}

pub(crate) fn render<T: Serialize>(status: StatusCode, data: T) -> Response {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    match serde_json::to_writer(&mut bytes, &DataBody { data }) {
        Ok(()) => json_response(status, bytes),
        Err(error) => ApiError::internal(error).into_response(),
    }
}

/// The envelope of a refusal, for an operation on many things that reports the result of each. Logs the cause of a bug.
#[must_use]
pub fn body(error: &ApiError) -> ErrorBody {
    if let ApiError::Internal(cause) = error {
        tracing::error!(error = %cause, "a request failed with an internal error");
    }
    let parts = error.parts();
    ErrorBody::new(parts.code, error.to_string(), parts.details)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let parts = self.parts();
        let mut response = json_response(parts.status, body(&self).to_bytes());
        let reason = parts.details.get("reason").and_then(Value::as_str);
        let reason = reason.map_or(Cow::Borrowed(parts.code), |reason| Cow::Owned(reason.to_owned()));
        response.extensions_mut().insert(Reason(reason));
        if parts.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.is_soon_over() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        response
    }
}

fn json_response(status: StatusCode, bytes: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes).into_response()
}
