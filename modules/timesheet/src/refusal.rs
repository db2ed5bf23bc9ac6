//! The module's own refusals: each carries a stable word for programs.

use contract::envelope::code;
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

/// 403 `AUTHORIZATION_DENIED`: the row is there, and it is not the caller's to move so.
pub(crate) fn not_yours(reason: &'static str, message: &'static str) -> ApiError {
    let details = json!({ "reason": reason });
    ApiError::Forbidden { code: code::AUTHORIZATION_DENIED, message: message.into(), details }
}
