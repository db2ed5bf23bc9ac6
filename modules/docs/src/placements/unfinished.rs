//! Completes interrupted moves. One into a folder is settled as the sweep would settle it later, by whether its tuple exists.
//! One out of a folder is finished: what was to be taken out must not stay open there. The sweep cannot, because
//! authz changes `parent` tuples only with a member's bearer. As with an interrupted transfer, any member's bearer will do:
//! the move was decided when it began, and the audit row names who began it.

use service::two_store::{Exchange, Guard};
use service::{ApiError, AuditedTx, CompanyCall};
use uuid::Uuid;

use super::row::{Swept, moves};
use super::store;
use crate::App;
use crate::folders::rules::FolderId;

/// Finishes these placements' changes.
///
/// # Errors
/// 403 when authz refuses the caller; 409 while another request is changing a placement; 503 while authz or the database
/// does not answer.
pub(crate) async fn finish(app: &App, call: &CompanyCall, placements: &[Uuid]) -> Result<(), ApiError> {
    for id in placements {
        let Some(found) = store::find(&app.core.pool, call.company, *id).await? else { continue };
        let finished = match (&*found.state, found.next) {
            ("revoking", _) => {
                app.two_store().remove_guarded::<Swept>(call, *id, &Resumed(None)).await.map(drop)
            }
            ("exchanging", Some(_)) => {
                app.two_store().exchange(call, *id, &Resumed(found.next)).await.map(drop)
            }
            ("pending", _) => app.two_store().settle_pending::<Swept>(call.company, *id).await,
            _ => Ok(()),
        };
        match finished {
            Ok(()) | Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Finishes what broke off in a folder, so that it can be deleted.
///
/// # Errors
/// As [`finish`].
pub(crate) async fn finish_in(app: &App, call: &CompanyCall, folder: FolderId) -> Result<(), ApiError> {
    let found = store::broken_off_in(&app.core.pool, call.company, folder).await?;
    finish(app, call, &found).await
}

/// The change that a placement is in, to that folder or out of any; it begins none.
#[derive(Clone)]
struct Resumed(Option<FolderId>);

impl Guard<Swept> for Resumed {
    async fn admit(&self, _row: &Swept, _tx: &mut AuditedTx) -> Result<(), ApiError> {
        Err(moves())
    }
}

impl Exchange for Resumed {
    type Row = Swept;

    async fn begin(&self, _row: &Swept, _tx: &mut AuditedTx) -> Result<bool, ApiError> {
        Ok(false)
    }

    fn is_under_way(&self, row: &Swept) -> bool {
        row.0.next == self.0
    }
}
