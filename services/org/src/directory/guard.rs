//! Access to the names of a company's members: for services, operators, and bearers to whom authz opens the directory.
//! The gateway forwards every bearer's request, so this is the only check.

use contract::CorrelationId;
use contract::envelope::code;
use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, ReadPermit, Reader};

use crate::App;

/// As [`admit`], and waits for the turn of a costly read. Whoever is refused takes no turn; whoever had to wait for one is
/// checked again.
///
/// # Errors
/// As [`admit`]; 429 and 503 as [`service::ReadLimit::enter`] says.
pub(crate) async fn enter(
    app: &App,
    reader: &Reader,
    company: CompanyId,
    correlation: &CorrelationId,
) -> Result<Option<ReadPermit>, ApiError> {
    admit(app, reader, company, correlation).await?;
    let read = app.core.read_limit.enter_as(reader).await?;
    if read.as_ref().is_some_and(ReadPermit::waited) {
        admit(app, reader, company, correlation).await?;
    }
    Ok(read)
}

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
