//! The decision of an operation about one folder, which is looked up first: an unknown id asks nothing.

use std::ops::Deref;

use contract::Subject;
use service::{ApiError, CompanyCall, ObjectPermit};

use super::rules::{FolderId, unknown};
use crate::App;
use crate::operations::{FOLDERS_EDIT, MANAGER};
use crate::placements::rules::unknown_folder;
use crate::shares::relinked;
use crate::shares::rules::ShareId;

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
    let owner = look_up(app, &call, id).await?.ok_or_else(unknown)?;
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
    look_up(app, call, folder).await?.ok_or_else(unknown_folder)?;
    app.permits.ask_object(call, &FOLDERS_EDIT, folder).await.map(drop)
}

/// The folder's owner, which is shown to nobody before the decision. Removes a share that was given to another member row of
/// the caller's login, so that it does not affect the decision.
async fn look_up(app: &App, call: &CompanyCall, id: FolderId) -> Result<Option<Subject>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT owner_kc_sub, ARRAY(
             SELECT s.id FROM docs.folder_ancestors a CROSS JOIN LATERAL (
               SELECT s.id FROM docs.shares s
               WHERE s.folder_id = a.ancestor_id AND s.company_id = $1 AND s.kc_sub = $3 AND s.member_id IS NOT NULL
                 AND s.state <> 'pending' OFFSET 0) AS s
             WHERE a.folder_id = f.id) AS "shares_with_login!"
           FROM docs.folders f WHERE company_id = $1 AND id = $2 AND state <> 'pending'"#,
        call.company.as_uuid(),
        id.as_uuid(),
        call.subject.as_str()
    );
    let Some(row) = row.fetch_optional(&app.core.pool).await? else { return Ok(None) };
    let shares: Vec<ShareId> = row.shares_with_login.into_iter().map(ShareId::from).collect();
    relinked::settle_caller(app, call, &shares).await?;
    crate::store::subject(&row.owner_kc_sub).map(Some)
}
