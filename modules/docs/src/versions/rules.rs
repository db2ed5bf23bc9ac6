//! Versions: their fields and numbers.

use contract::Timestamp;
use serde::Serialize;
use service::{ApiError, CompanyCall};

/// A version without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The number; the first is 1.
    pub version: i32,
    /// The title in this version.
    pub title: String,
    /// The length of the text in characters.
    pub size: i32,
    /// The subject that wrote it.
    pub author: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// The version that it restores, if any.
    pub restored_from: Option<i32>,
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionText {
    /// The version's other fields.
    #[serde(flatten)]
    pub version: Version,
    /// The text.
    pub body: String,
}

/// The version number in the path.
///
/// # Errors
/// 400 naming the parameter for anything but an integer from 1.
pub(crate) fn number(call: &CompanyCall) -> Result<i32, ApiError> {
    let text = call.path.text("version");
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.filter(|number| *number >= 1).ok_or_else(|| {
        ApiError::validation_field("version", "range", format!("an integer from 1 to {}", i32::MAX))
    })
}

/// 404 for an unknown version.
pub(crate) fn unknown() -> ApiError {
    ApiError::NotFound("version".into())
}
