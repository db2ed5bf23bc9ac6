//! Helpers that every resource's store uses to read rows.

use contract::Subject;
use service::ApiError;

/// Parses a stored subject.
///
/// # Errors
/// 500 when the text is not a subject, which is a bug.
pub(crate) fn subject(text: &str) -> Result<Subject, ApiError> {
    Subject::parse(text).ok_or_else(|| ApiError::internal("a stored subject is malformed"))
}
