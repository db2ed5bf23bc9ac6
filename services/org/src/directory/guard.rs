//! Access to the names of a company's members: for services, operators, and bearers to whom authz opens the directory.
//! The gateway makes the same check; org repeats it because other clients may reach its port.

use contract::CorrelationId;
use contract::envelope::code;
use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, Reader};

use crate::App;

/// Checks that a reader may read the names of a company's members.
///
/// # Errors
/// 403 with authz's reason; 503 if authz cannot answer.
pub(crate) async fn admit(
    app: &App,
    reader: &Reader,
    company: CompanyId,
    correlation: &CorrelationId,
) -> Result<(), ApiError> {
    let Reader::Subject(caller) = reader else { return Ok(()) };
    let answer = app.authz.directory(company, caller, correlation).await?;
    if answer.held {
        return Ok(());
    }
    Err(ApiError::Forbidden {
        code: code::FORBIDDEN,
        message: "the company's directory is not open to the caller".into(),
        details: json!({ "reason": answer.reason }),
    })
}
