//! The only place that renders: `Data` and `Created` for success, `ApiError` for refusals.

use axum::response::{IntoResponse, Response};
use contract::ErrorBody;
use contract::envelope::DataBody;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::ApiError;

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
    match serde_json::to_vec(&DataBody { data }) {
        Ok(bytes) => json_response(status, bytes),
        Err(error) => ApiError::internal(error).into_response(),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Self::Internal(cause) = &self {
            tracing::error!(error = %cause, "a request failed inside");
        }
        let parts = self.parts();
        let body = ErrorBody::new(parts.code, self.to_string(), parts.details);
        let mut response = json_response(parts.status, body.to_bytes());
        if parts.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self, Self::IdempotencyInProgress) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn json_response(status: StatusCode, bytes: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes).into_response()
}
