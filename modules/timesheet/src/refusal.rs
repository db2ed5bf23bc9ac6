//! The module's own refusals: each carries a stable word for programs.

use serde_json::{Value, json};
use service::ApiError;

/// 422 `VALIDATION_FAILED`: the rule `reason` is broken; `details` is an object that says more.
pub(crate) fn broken(reason: &'static str, message: &'static str, details: Value) -> ApiError {
    ApiError::Unprocessable { message: message.into(), details: with_reason(details, reason) }
}

fn with_reason(details: Value, reason: &str) -> Value {
    let mut members = match details {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            serde_json::Map::new()
        }
    };
    members.insert("reason".to_owned(), json!(reason));
    Value::Object(members)
}

/// 409 with the module's own code.
pub(crate) fn conflict(code: &'static str, message: &'static str, details: Value) -> ApiError {
    ApiError::Conflict { code, message: message.into(), details }
}
