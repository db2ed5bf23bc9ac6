//! Every error that a service returns to a caller. An [`ApiError`] is a value that handlers return with `?`; `reply.rs`
//! renders it.

use std::borrow::Cow;

use contract::FieldProblem;
use contract::envelope::{code, field_details};
use http::StatusCode;
use serde_json::{Value, json};

use crate::read_limit;

/// A refusal. [`ApiError::parts`] decides its status, code and details, so a new variant does not compile without them.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 400: the request cannot be parsed.
    #[error("{0}")]
    BadRequest(Cow<'static, str>),
    /// 400: parsed, but fields are missing, of the wrong type or out of range.
    #[error("the request has wrong fields")]
    Validation(Vec<FieldProblem>),
    /// 401: no bearer.
    #[error("a bearer token is needed")]
    TokenMissing,
    /// 401: the bearer does not verify; the reason is logged, not returned.
    #[error("the bearer token is not valid")]
    TokenInvalid(&'static str),
    /// 403: a decision or a rule refused.
    #[error("{message}")]
    Forbidden {
        /// `AUTHORIZATION_DENIED` or `FORBIDDEN`.
        code: &'static str,
        /// For people to read.
        message: Cow<'static, str>,
        /// Holds `reason`.
        details: Value,
    },
    /// 404.
    #[error("{0} not found")]
    NotFound(Cow<'static, str>),
    /// 405; the router adds `Allow`.
    #[error("this path does not take this method")]
    MethodNotAllowed,
    /// 409.
    #[error("{message}")]
    Conflict {
        /// `CONFLICT` or something more specific.
        code: &'static str,
        /// For people to read.
        message: Cow<'static, str>,
        /// Free-form.
        details: Value,
    },
    /// 409 with `Retry-After`: the first request with this `Idempotency-Key` is still running.
    #[error("a request with this key is still running")]
    IdempotencyInProgress,
    /// 422: the `Idempotency-Key` was used for another request.
    #[error("this key was used for another request")]
    IdempotencyKeyReused,
    /// 429 with `Retry-After`: the subject already runs as many costly reads as it may.
    #[error("too many reads at once")]
    RateLimited,
    /// 413.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// 422: breaks a business rule.
    #[error("{message}")]
    Unprocessable {
        /// For people to read.
        message: Cow<'static, str>,
        /// Holds `fields` or `reason`.
        details: Value,
    },
    /// 503: a dependency of this response is unavailable.
    #[error("{}", unavailable(.dependency))]
    Unavailable {
        /// The dependency: `postgres`, `authz`, `org`, `idp`, …
        dependency: Cow<'static, str>,
        /// More members for `details`, an object; `dependency` is added to it.
        details: Value,
    },
    /// 500: a bug; the cause is logged, never returned.
    #[error("an internal error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// `Retry-After` of refusals that pass by themselves, in seconds.
pub(crate) const RETRY_AFTER_SECONDS: u64 = 1;

/// Status, code and details of a refusal.
pub struct Parts {
    /// HTTP status.
    pub status: StatusCode,
    /// Envelope code.
    pub code: &'static str,
    /// Envelope details.
    pub details: Value,
}

impl ApiError {
    /// 409 `CONFLICT`.
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Conflict { code: code::CONFLICT, message: message.into(), details: Value::Null }
    }

    /// 409 `CONFLICT` because another resource has the value of `field`.
    pub fn conflict_field(field: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let details = json!({ "field": field });
        Self::Conflict { code: code::CONFLICT, message: message.into(), details }
    }

    /// 422 naming the wrong fields.
    #[must_use]
    pub fn unprocessable(problems: &[FieldProblem]) -> Self {
        let message = "the request breaks a rule".into();
        Self::Unprocessable { message, details: field_details(problems) }
    }

    /// 422 for one field.
    pub fn unprocessable_field(
        path: impl Into<String>,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::unprocessable(&[FieldProblem::new(path, rule, message)])
    }

    /// 400 for one field.
    pub fn validation_field(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self::Validation(vec![FieldProblem::new(path, rule, message)])
    }

    /// 503 that names only the dependency.
    pub fn unavailable(dependency: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable { dependency: dependency.into(), details: json!({}) }
    }

    /// 500 with its cause.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(cause.into())
    }

    /// Whether the same request may be sent again after [`RETRY_AFTER_SECONDS`].
    pub(crate) fn is_soon_over(&self) -> bool {
        let waits_for_turn =
            matches!(self, Self::Unavailable { dependency, .. } if dependency == read_limit::DEPENDENCY);
        waits_for_turn || matches!(self, Self::IdempotencyInProgress | Self::RateLimited)
    }

    /// Status, code and details of this refusal.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let (status, code, details) = match self {
            Self::BadRequest(_) => (StatusCode::BAD_REQUEST, code::BAD_REQUEST, Value::Null),
            Self::Validation(problems) => {
                (StatusCode::BAD_REQUEST, code::VALIDATION_ERROR, field_details(problems))
            }
            Self::TokenMissing => (StatusCode::UNAUTHORIZED, code::AUTH_TOKEN_MISSING, Value::Null),
            Self::TokenInvalid(_) => (StatusCode::UNAUTHORIZED, code::AUTH_TOKEN_INVALID, Value::Null),
            Self::Forbidden { code, details, .. } => (StatusCode::FORBIDDEN, *code, details.clone()),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, code::NOT_FOUND, Value::Null),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, code::METHOD_NOT_ALLOWED, Value::Null),
            Self::Conflict { code, details, .. } => (StatusCode::CONFLICT, *code, details.clone()),
            Self::IdempotencyInProgress => (StatusCode::CONFLICT, code::IDEMPOTENCY_IN_PROGRESS, Value::Null),
            Self::IdempotencyKeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, code::IDEMPOTENCY_KEY_REUSED, Value::Null)
            }
            Self::RateLimited => (StatusCode::TOO_MANY_REQUESTS, code::RATE_LIMITED, read_limit()),
            Self::TooLarge { limit } => {
                (StatusCode::PAYLOAD_TOO_LARGE, code::PAYLOAD_TOO_LARGE, json!({ "limitBytes": limit }))
            }
            Self::Unprocessable { details, .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, code::VALIDATION_FAILED, details.clone())
            }
            Self::Unavailable { dependency, details } => (
                StatusCode::SERVICE_UNAVAILABLE,
                code::AUTHORIZATION_UNAVAILABLE,
                with_dependency(details, dependency),
            ),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL_ERROR, Value::Null),
        };
        Parts { status, code, details }
    }
}

/// Details of a read limit, in the form that the gateway uses for its own limits.
fn read_limit() -> Value {
    json!({ "scope": "reads", "retryAfterSeconds": RETRY_AFTER_SECONDS })
}

fn with_dependency(details: &Value, dependency: &str) -> Value {
    let mut object = details.as_object().cloned().unwrap_or_default();
    object.insert("dependency".to_owned(), Value::from(dependency));
    Value::Object(object)
}

impl From<sqlx::Error> for ApiError {
    /// Maps an unavailable database, and a transaction that is aborted on every attempt, to an unavailable dependency;
    /// everything else is a bug. Queries turn meaningful constraint violations into their own refusal
    /// ([`crate::db::on_constraint`]).
    fn from(error: sqlx::Error) -> Self {
        if crate::db::is_contention(&error) {
            crate::contention::gave_way();
            tracing::debug!(%error, "the database aborted a transaction");
            return Self::unavailable("postgres");
        }
        if crate::db::is_outage(&error) {
            tracing::warn!(%error, "the database cannot answer");
            return Self::unavailable("postgres");
        }
        Self::internal(error)
    }
}

impl From<contract::words::UnknownWord> for ApiError {
    /// The tables hold only the program's own words, so an unknown one is a bug.
    fn from(unknown: contract::words::UnknownWord) -> Self {
        Self::internal(unknown)
    }
}

/// The dependency that 503 names when the time for the request ran out.
pub(crate) const REQUEST_BUDGET: &str = "request_budget";

/// What a person reads of a dependency that is unavailable. Two of them are limits of the service itself.
fn unavailable(dependency: &str) -> String {
    match dependency {
        REQUEST_BUDGET => "the time for the request ran out".to_owned(),
        read_limit::DEPENDENCY => "too many reads wait for their turn".to_owned(),
        _ => format!("{dependency} cannot answer"),
    }
}

impl From<crate::client::Unavailable> for ApiError {
    fn from(cause: crate::client::Unavailable) -> Self {
        tracing::warn!(dependency = cause.dependency, reason = %cause.reason, "a dependency cannot answer");
        Self::unavailable(cause.dependency)
    }
}
