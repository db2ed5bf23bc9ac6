//! Completes interrupted removals of shares with positions and groups. authz revokes their tuples only with a member's
//! bearer, so the next request for the document or folder revokes them before it is decided, with its own caller's bearer.
//! A caller whom authz refuses that leaves them as they are ([`is_done`]).

use service::two_store::Guard;
use service::{ApiError, AuditedTx, CompanyCall};

use super::row::Swept;
use super::rules::ShareId;
use crate::App;

/// Finishes these removals.
///
/// # Errors
/// 403 when authz refuses the caller; 409 while another request is changing a share; 503 while authz or the database does
/// not answer.
pub(crate) async fn finish(app: &App, call: &CompanyCall, shares: &[ShareId]) -> Result<(), ApiError> {
    for id in shares {
        match app.two_store().remove_guarded::<Swept>(call, id.as_uuid(), &Resumed).await {
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Begins no removal: the share may have been settled otherwise since it was read.
struct Resumed;

impl Guard<Swept> for Resumed {
    async fn admit(&self, _row: &Swept, _tx: &mut AuditedTx) -> Result<(), ApiError> {
        Err(ApiError::conflict("it is no longer being removed"))
    }
}

/// Whether what must be removed before a decision is gone. It is not if authz refuses the caller, whom the decision will
/// refuse as well: until then the call goes on, so that a stranger is told nothing else than usual, but an allowed call
/// is refused.
///
/// # Errors
/// 503 for a conflict, because another request is changing the row; those of `finished`.
pub(crate) fn is_done(finished: Result<(), ApiError>) -> Result<bool, ApiError> {
    match finished {
        Ok(()) => Ok(true),
        Err(ApiError::Forbidden { .. }) => Ok(false),
        // Fail closed: there is no decision before this succeeds. A concurrent change is over in a moment.
        Err(ApiError::Conflict { .. }) => Err(ApiError::unavailable("postgres")),
        Err(error) => Err(error),
    }
}
