//! Who reads a company's names: a service, an operator, or a bearer to whom authz opens the directory at this moment. The
//! edge asks the same before; org does not rely on who opened its port.

use contract::CorrelationId;
use contract::envelope::code;
use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, Reader};

use crate::App;

/// Lets a reader read the names of a company.
///
/// # Errors
/// 403 with authz's reason; 503 when authz cannot answer.
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
