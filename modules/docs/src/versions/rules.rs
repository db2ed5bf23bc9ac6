//! What a version is.

use contract::Timestamp;
use serde::Serialize;
use service::{ApiError, CompanyCall};

/// A version without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// 1 is the first.
    pub version: i32,
    /// As it was then.
    pub title: String,
    /// Characters of the text.
    pub size: i32,
    /// The subject that wrote it.
    pub author: String,
    /// When.
    pub created_at: Timestamp,
    /// The version whose text it has again.
    pub restored_from: Option<i32>,
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionText {
    /// Without it.
    #[serde(flatten)]
    pub version: Version,
    /// The text.
    pub body: String,
}

/// The number in the path. One that is malformed can be no version's.
///
/// # Errors
/// 404.
pub(crate) fn number(call: &CompanyCall) -> Result<i32, ApiError> {
    let text = call.path.text("version");
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.filter(|number| *number >= 1).ok_or_else(unknown)
}

/// 404.
pub(crate) fn unknown() -> ApiError {
    ApiError::NotFound("version".into())
}
