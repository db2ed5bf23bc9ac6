//! The decision of an operation about one folder, which is looked up first: an unknown id asks nothing.

use std::ops::Deref;

use contract::Subject;
use service::{ApiError, CompanyCall, ObjectPermit};
use sqlx::PgPool;

use super::rules::{FolderId, unknown};
use crate::App;
use crate::operations::{FOLDERS_EDIT, MANAGER};
use crate::placements::rules::unknown_folder;
use crate::shares::relinked;
use crate::shares::rules::Target;

/// A call that may do what its operation does.
#[derive(Debug)]
pub(crate) struct Admitted {
    permit: ObjectPermit,
    pub(crate) id: FolderId,
    /// The caller administers another one's folder.
    pub(crate) as_manager: bool,
}

impl Deref for Admitted {
    type Target = CompanyCall;

    fn deref(&self) -> &CompanyCall {
        &self.permit
    }
}

impl Admitted {
    /// The permit that it holds.
    pub(crate) const fn permit(&self) -> &ObjectPermit {
        &self.permit
    }
}

/// Admits a call to the folder of its path.
///
/// # Errors
/// 404 without the folder; 403 and 503 as authz decides.
pub(crate) async fn admit(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let id: FolderId = call.path.id("folderId")?;
    let owner = owner(&app.core.pool, &call, id).await?.ok_or_else(unknown)?;
    relinked::settle_caller(app, &call, Target::Folder(id)).await?;
    let (first, otherwise) = (call.feature, call.operation.otherwise);
    let Some(otherwise) = otherwise else {
        let permit = app.permits.ask_object(&call, &first, id).await?;
        return Ok(admitted(permit, id, &owner, first.relation == MANAGER));
    };
    if let Some(permit) = app.permits.probe_object(&call, &first, id).await? {
        return Ok(admitted(permit, id, &owner, false));
    }
    let permit = app.permits.ask_object(&call, &otherwise, id).await?;
    Ok(admitted(permit, id, &owner, otherwise.relation == MANAGER))
}

fn admitted(permit: ObjectPermit, id: FolderId, owner: &Subject, managed: bool) -> Admitted {
    let as_manager = managed && *owner != permit.subject;
    Admitted { permit, id, as_manager }
}

/// Asks whether the caller may put something into a folder that a body names.
///
/// # Errors
/// 422 `FOLDER_UNKNOWN`; 403 and 503 as authz decides.
pub(crate) async fn check_editor(app: &App, call: &CompanyCall, folder: FolderId) -> Result<(), ApiError> {
    owner(&app.core.pool, call, folder).await?.ok_or_else(unknown_folder)?;
    relinked::settle_caller(app, call, Target::Folder(folder)).await?;
    app.permits.ask_object(call, &FOLDERS_EDIT, folder).await.map(drop)
}

/// What it reads before the decision is shown to nobody.
async fn owner(pool: &PgPool, call: &CompanyCall, id: FolderId) -> Result<Option<Subject>, ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT owner_kc_sub FROM docs.folders WHERE company_id = $1 AND id = $2 AND state <> 'pending'",
        call.company.as_uuid(),
        id.as_uuid()
    );
    found.fetch_optional(pool).await?.as_deref().map(crate::store::subject).transpose()
}
