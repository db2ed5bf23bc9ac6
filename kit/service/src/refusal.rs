//! Refusals by a module's rules: each carries a stable identifier for programs.

use std::borrow::Cow;

use contract::FieldProblem;
use contract::envelope::code;
use serde_json::{Value, json};

use crate::ApiError;

/// A business rule that a request violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The stable identifier, `details.reason`.
    pub reason: &'static str,
    /// For people to read.
    pub message: &'static str,
    /// An object with further details.
    pub details: Value,
}

impl Broken {
    /// The rule `reason` is broken.
    #[must_use]
    pub const fn new(reason: &'static str, message: &'static str, details: Value) -> Self {
        Self { reason, message, details }
    }

    /// One entry in a report on a request of many parts; `path` is the part.
    #[must_use]
    pub fn at(&self, path: String) -> FieldProblem {
        FieldProblem::new(path, self.reason, self.message)
    }
}

impl From<Broken> for ApiError {
    /// 422 `VALIDATION_FAILED`.
    fn from(broken: Broken) -> Self {
        Self::Unprocessable {
            message: broken.message.into(),
            details: with_reason(broken.details, broken.reason),
        }
    }
}

/// 422 `VALIDATION_FAILED`: the rule `reason` is broken; `details` is an object with further details.
#[must_use]
pub fn broken(reason: &'static str, message: &'static str, details: Value) -> ApiError {
    Broken::new(reason, message, details).into()
}

/// 422 `VALIDATION_FAILED` with a report of every broken rule; `details.reason` is the first rule's.
#[must_use]
pub fn all_broken(message: impl Into<Cow<'static, str>>, problems: &[FieldProblem]) -> ApiError {
    let reason = problems.first().map_or_else(|| "".into(), |problem| problem.rule.clone());
    let fields = contract::envelope::field_details(problems);
    ApiError::Unprocessable { message: message.into(), details: with_reason(fields, &reason) }
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
#[must_use]
pub fn conflict(code: &'static str, message: &'static str, details: Value) -> ApiError {
    ApiError::Conflict { code, message: message.into(), details }
}

/// 403 `AUTHORIZATION_DENIED`: the row exists, but the caller may not make this transition.
#[must_use]
pub fn not_yours(reason: &'static str, message: &'static str) -> ApiError {
    let details = json!({ "reason": reason });
    ApiError::Forbidden { code: code::AUTHORIZATION_DENIED, message: message.into(), details }
}
