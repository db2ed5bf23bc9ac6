//! Access to the names of a company's members: for services, operators, and bearers to whom authz opens the directory.
//! The gateway forwards every bearer's request, so this is the only check.

use std::time::{Duration, Instant};

use contract::CorrelationId;
use contract::envelope::code;
use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, ReadLimit, ReadPermit, Reader};

use crate::App;

/// The longest wait for a turn after which a decision still counts.
const DECISION_AGE: Duration = Duration::from_millis(100);

/// Calls [`admit`], then waits for the reader's turn within a limit. A refused reader takes no turn; a reader that waited
/// longer than a tenth of a second is checked again.
///
/// # Errors
/// As [`admit`]; 429 and 503 as [`ReadLimit::enter`] says.
pub(crate) async fn enter(
    app: &App,
    limit: &ReadLimit,
    reader: &Reader,
    company: CompanyId,
    correlation: &CorrelationId,
) -> Result<Option<ReadPermit>, ApiError> {
    admit(app, reader, company, correlation).await?;
    let decided = Instant::now();
    let read = limit.enter_as(reader).await?;
    if decided.elapsed() > DECISION_AGE {
        admit(app, reader, company, correlation).await?;
    }
    Ok(read)
}

/// Checks that a reader may read the names of a company's members.
///
/// # Errors
/// 403 with authz's reason; 503 if authz cannot answer.
async fn admit(
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
