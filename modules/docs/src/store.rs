//! What the stores of all resources read the same way.

use contract::Subject;
use service::ApiError;

/// A stored subject.
///
/// # Errors
/// The table holds none, which is a bug.
pub(crate) fn subject(text: &str) -> Result<Subject, ApiError> {
    Subject::parse(text).ok_or_else(|| ApiError::internal("a stored subject is none"))
}
