//! The two envelopes of every response: `{"data": …}` and `{"error": {code, message, details}}` (gateway document,
//! "Errors"). Each code is a constant here, spelled once; `ApiError` in services and `Refusal` in the gateway decide
//! which status goes with it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Error codes that more than one crate uses; the codes of a single module are in that module.
pub mod code {
    /// 400: the request cannot be parsed (JSON, path id, framing, `x-user-*`).
    pub const BAD_REQUEST: &str = "BAD_REQUEST";
    /// 400: parsed, but a field is missing, of the wrong type or out of range; `details.fields`.
    pub const VALIDATION_ERROR: &str = "VALIDATION_ERROR";
    /// 401: no bearer.
    pub const AUTH_TOKEN_MISSING: &str = "AUTH_TOKEN_MISSING";
    /// 401: a bearer that does not verify.
    pub const AUTH_TOKEN_INVALID: &str = "AUTH_TOKEN_INVALID";
    /// 403: a guard of the gateway refused.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// 403: denied by a decision; `details.reason`.
    pub const AUTHORIZATION_DENIED: &str = "AUTHORIZATION_DENIED";
    /// 403: the superadmin role is not held.
    pub const PLATFORM_ROLE_REQUIRED: &str = "PLATFORM_ROLE_REQUIRED";
    /// 403 at the catalog gate; 409 when enabling.
    pub const MODULE_NOT_INSTALLED: &str = "MODULE_NOT_INSTALLED";
    /// 403: installed, not enabled.
    pub const MODULE_DISABLED: &str = "MODULE_DISABLED";
    /// 403: a required dependency is not enabled.
    pub const MODULE_DEPENDENCY_MISSING: &str = "MODULE_DEPENDENCY_MISSING";
    /// 404.
    pub const NOT_FOUND: &str = "NOT_FOUND";
    /// 405, with `Allow`.
    pub const METHOD_NOT_ALLOWED: &str = "METHOD_NOT_ALLOWED";
    /// 409 when nothing more specific fits.
    pub const CONFLICT: &str = "CONFLICT";
    /// 409: the assignment's `validTo` is set already.
    pub const ASSIGNMENT_ALREADY_ENDED: &str = "ASSIGNMENT_ALREADY_ENDED";
    /// 409: the group's `source` is not `platform`.
    pub const GROUP_NOT_PLATFORM_MANAGED: &str = "GROUP_NOT_PLATFORM_MANAGED";
    /// 409: the first request with the same `Idempotency-Key` is still running.
    pub const IDEMPOTENCY_IN_PROGRESS: &str = "IDEMPOTENCY_IN_PROGRESS";
    /// 422: the `Idempotency-Key` was used for another request.
    pub const IDEMPOTENCY_KEY_REUSED: &str = "IDEMPOTENCY_KEY_REUSED";
    /// 413.
    pub const PAYLOAD_TOO_LARGE: &str = "PAYLOAD_TOO_LARGE";
    /// 414.
    pub const URI_TOO_LONG: &str = "URI_TOO_LONG";
    /// 421: the host is not the platform's.
    pub const MISDIRECTED_REQUEST: &str = "MISDIRECTED_REQUEST";
    /// 422: well-formed, breaks a business rule.
    pub const VALIDATION_FAILED: &str = "VALIDATION_FAILED";
    /// 429.
    pub const RATE_LIMITED: &str = "RATE_LIMITED";
    /// 431.
    pub const HEADERS_TOO_LARGE: &str = "HEADERS_TOO_LARGE";
    /// 500, and 503 of `/ready`.
    pub const INTERNAL_ERROR: &str = "INTERNAL_ERROR";
    /// 503: authorization or one of its dependencies is unavailable.
    pub const AUTHORIZATION_UNAVAILABLE: &str = "AUTHORIZATION_UNAVAILABLE";
    /// 503: the module cannot be reached.
    pub const MODULE_UNAVAILABLE: &str = "MODULE_UNAVAILABLE";
    /// The request was not completed in time.
    pub const REQUEST_TIMEOUT: &str = "REQUEST_TIMEOUT";
    /// The server cannot meet the client's `Expect`.
    pub const EXPECTATION_FAILED: &str = "EXPECTATION_FAILED";
    /// 501: extended CONNECT to a protocol that the gateway or the upstream does not support.
    pub const NOT_IMPLEMENTED: &str = "NOT_IMPLEMENTED";
    /// Another version of HTTP is required.
    pub const UPGRADE_REQUIRED: &str = "UPGRADE_REQUIRED";
}

/// `{"data": …}`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct DataBody<T> {
    /// The success value.
    pub data: T,
}

/// `{"error": {code, message, details}}`; `details` is always present, `null` when empty.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ErrorBody {
    /// The failure.
    pub error: ErrorContent,
}

/// The content of [`ErrorBody`].
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ErrorContent {
    /// A stable identifier.
    pub code: Cow<'static, str>,
    /// A sentence for people; may change.
    pub message: Cow<'static, str>,
    /// Free-form.
    pub details: Value,
}

impl ErrorBody {
    /// The envelope of one failure.
    pub fn new(
        code: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
        details: Value,
    ) -> Self {
        Self { error: ErrorContent { code: code.into(), message: message.into(), details } }
    }

    /// The envelope as JSON bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings and JSON values always serialise; the fallback keeps the function total.
        serde_json::to_vec(self).unwrap_or_else(|_| {
            br#"{"error":{"code":"INTERNAL_ERROR","message":"","details":null}}"#.to_vec()
        })
    }
}

/// One wrong field: `details.fields[]` of `VALIDATION_ERROR` and `VALIDATION_FAILED`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct FieldProblem {
    /// Location of the field, such as `a.b[1].c`.
    pub path: String,
    /// The violated rule, a stable identifier (`required`, `type`, `length`, `pattern`, `unique`, …).
    pub rule: Cow<'static, str>,
    /// The valid form.
    pub message: String,
}

impl FieldProblem {
    /// One wrong field.
    pub fn new(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), rule: Cow::Borrowed(rule), message: message.into() }
    }
}

/// Most problems reported for one file or body. A longer list helps no one, and the sender would control its length: a
/// megabyte of invalid items would produce a hundred megabytes of response.
pub const MAX_PROBLEMS: usize = 500;
/// Longest member name that a path shows in full, in bytes; every name in a contract is shorter.
const MAX_SHOWN: usize = 128;

/// A member name as a path shows it: truncated when longer than any valid name, so that input cannot inflate a path.
#[must_use]
pub fn shown(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_SHOWN {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("{}…", name.get(..name.floor_char_boundary(MAX_SHOWN)).unwrap_or_default()))
}

/// Adds a problem while there are fewer than [`MAX_PROBLEMS`]; the last one says that there are more.
pub fn tell(problems: &mut Vec<FieldProblem>, problem: FieldProblem) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(problem);
    } else if problems.len() == MAX_PROBLEMS {
        problems.push(FieldProblem::new("", "more", format!("more than {MAX_PROBLEMS} problems")));
    }
}

/// `{"fields": […]}`, the `details` of the two validation codes.
#[must_use]
pub fn field_details(problems: &[FieldProblem]) -> Value {
    serde_json::json!({ "fields": problems })
}
