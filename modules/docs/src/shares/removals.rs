//! Completes interrupted removals of shares with positions and groups. authz revokes their tuples only with a member's
//! bearer, so the next request for the document or folder revokes them before it is decided, with its own caller's bearer.

use service::{ApiError, CompanyCall};

use super::row::Swept;
use super::rules::ShareId;
use crate::App;

/// Finishes these removals.
///
/// # Errors
/// 503 while authz or the database does not answer; the call is not decided then.
pub(crate) async fn finish(app: &App, call: &CompanyCall, shares: &[ShareId]) -> Result<(), ApiError> {
    for id in shares {
        match app.two_store().remove::<Swept>(call, id.as_uuid()).await {
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            // Fail closed: another request is changing the share.
            Err(ApiError::Conflict { .. }) => return Err(ApiError::unavailable("postgres")),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
