//! Decides operations on one folder. The folder's row is looked up first: an unknown id asks authz nothing.

use std::ops::Deref;

use contract::Subject;
use service::two_store::TwoStore;
use service::{ApiError, CompanyCall, Feature, ObjectPermit};
use uuid::Uuid;

use super::rules::{FolderId, unknown};
use crate::App;
use crate::admission::MAX_LOOKS;
use crate::operations::{FOLDERS_EDIT, MANAGER};
use crate::placements;
use crate::placements::rules::{Child, unknown_folder};
use crate::shares::relinked;
use crate::shares::removals::{self, is_done};
use crate::shares::rules::ShareId;

/// A call that authz has allowed.
#[derive(Debug)]
pub(crate) struct Admitted {
    permit: ObjectPermit,
    /// What the permit is for.
    asked: Feature,
    pub(crate) id: FolderId,
    /// The caller was admitted as a manager of a folder that someone else owns.
    pub(crate) as_manager: bool,
    /// The caller manages this folder, which contains the folder, and not the folder itself: the only move is out of it.
    pub(crate) takes_out_of: Option<FolderId>,
}

impl Deref for Admitted {
    type Target = CompanyCall;

    fn deref(&self) -> &CompanyCall {
        &self.permit
    }
}

impl Admitted {
    /// Writes rows and tuples while the caller has the right by which it was admitted.
    pub(crate) fn two_store(&self, app: &App) -> TwoStore {
        app.two_store().while_allowed(app.permits.clone(), self.asked, &self.permit.object().id)
    }

    /// The permit that admitted the call.
    pub(crate) const fn permit(&self) -> &ObjectPermit {
        &self.permit
    }
}

/// Admits a call to the folder of its path.
///
/// # Errors
/// 404 when there is no such folder; 403 and 503 from authz.
pub(crate) async fn admit(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let id: FolderId = call.path.id("folderId")?;
    let gist = look_up(app, &call, id).await?.ok_or_else(unknown)?;
    let (first, otherwise) = (call.feature, call.operation.otherwise);
    let Some(otherwise) = otherwise else {
        let permit = app.permits.ask_object(&call, &first, id).await?;
        return admitted(permit, first, id, &gist);
    };
    if let Some(permit) = app.permits.probe_object(&call, &first, id).await? {
        return admitted(permit, first, id, &gist);
    }
    let permit = app.permits.ask_object(&call, &otherwise, id).await?;
    admitted(permit, otherwise, id, &gist)
}

fn admitted(permit: ObjectPermit, asked: Feature, id: FolderId, gist: &Gist) -> Result<Admitted, ApiError> {
    gist.check()?;
    let as_manager = asked.relation == MANAGER && gist.owner != permit.subject;
    Ok(Admitted { permit, asked, id, as_manager, takes_out_of: None })
}

/// The part of a folder's row that a decision depends on. It is not shown before the decision.
struct Gist {
    owner: Subject,
    /// Something that must be removed before the decision is left, because authz refuses the caller.
    is_left: bool,
}

impl Gist {
    /// Refuses an allowed call that may owe this to something that must be removed.
    fn check(&self) -> Result<(), ApiError> {
        if self.is_left { Err(ApiError::unavailable("authz")) } else { Ok(()) }
    }
}

/// Admits a call that moves the folder of its path: its managers, and those of the folder that it lies in
/// ([`Admitted::takes_out_of`]).
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_move(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let id: FolderId = call.path.id("folderId")?;
    let gist = look_up(app, &call, id).await?.ok_or_else(unknown)?;
    let placement = placements::store::of_child(&app.core.pool, call.company, Child::Folder(id)).await?;
    if let Some(placement) = placement.filter(|placement| matches!(&*placement.state, "active" | "revoking"))
    {
        if let Some(permit) = app.permits.probe_object(&call, &call.feature, id).await? {
            return admitted(permit, call.feature, id, &gist);
        }
        if let Some(permit) = app.permits.probe_object(&call, &call.feature, placement.parent).await? {
            let admitted = admitted(permit, call.feature, id, &gist)?;
            return Ok(Admitted { as_manager: false, takes_out_of: Some(placement.parent), ..admitted });
        }
    }
    let permit = app.permits.ask_object(&call, &call.feature, id).await?;
    admitted(permit, call.feature, id, &gist)
}

/// Asks whether the caller manages the folder, for a move that the manager of the folder around it may not make.
///
/// # Errors
/// 403 and 503 from authz.
pub(crate) async fn check_manager(app: &App, admitted: &Admitted) -> Result<(), ApiError> {
    app.permits.ask_object(admitted, &admitted.feature, admitted.id).await.map(drop)
}

/// Asks whether the caller may put something into a folder that a request body names, if it names one. What is put there
/// is written only while the caller may.
///
/// # Errors
/// 422 `FOLDER_UNKNOWN`; 403 and 503 from authz.
pub(crate) async fn into_folder(
    app: &App,
    call: &CompanyCall,
    folder: Option<FolderId>,
) -> Result<TwoStore, ApiError> {
    let Some(folder) = folder else { return Ok(app.two_store()) };
    let gist = look_up(app, call, folder).await?.ok_or_else(unknown_folder)?;
    app.permits.ask_object(call, &FOLDERS_EDIT, folder).await?;
    gist.check()?;
    Ok(app.two_store().while_allowed(app.permits.clone(), FOLDERS_EDIT, folder))
}

/// Reads what the decision needs. Finishes interrupted moves of the folder and of those around it and interrupted removals
/// of shares, and removes shares that were given to another member row of the caller's login, so that none of them affects
/// the decision.
async fn look_up(app: &App, call: &CompanyCall, id: FolderId) -> Result<Option<Gist>, ApiError> {
    for _ in 0..MAX_LOOKS {
        let Some(found) = read(app, call, id).await? else { return Ok(None) };
        let mut gist = Gist { owner: found.owner, is_left: false };
        if !found.moves_to_finish.is_empty() {
            if is_done(placements::unfinished::finish(app, call, &found.moves_to_finish).await)? {
                continue;
            }
            gist.is_left = true;
        }
        gist.is_left |= !is_done(removals::finish(app, call, &found.shares_to_remove).await)?;
        gist.is_left |= !is_done(relinked::settle_caller(app, call, &found.shares_with_login).await)?;
        return Ok(Some(gist));
    }
    Err(ApiError::unavailable("postgres"))
}

/// What is read before the decision.
struct Found {
    owner: Subject,
    /// Shares of the folder and of those around it that name the caller's login through a member row.
    shares_with_login: Vec<ShareId>,
    /// Those whose removal broke off 10 seconds ago or earlier.
    shares_to_remove: Vec<ShareId>,
    /// Placements of the folder and of those around it whose change broke off 10 seconds ago or earlier.
    moves_to_finish: Vec<Uuid>,
}

async fn read(app: &App, call: &CompanyCall, id: FolderId) -> Result<Option<Found>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT owner_kc_sub, ARRAY(
             SELECT s.id FROM docs.folder_ancestors a CROSS JOIN LATERAL (
               SELECT s.id FROM docs.shares s
               WHERE s.folder_id = a.ancestor_id AND s.company_id = $1 AND s.kc_sub = $3 AND s.member_id IS NOT NULL
                 AND s.state <> 'pending' OFFSET 0) AS s
             WHERE a.folder_id = f.id) AS "shares_with_login!",
             ARRAY(
               SELECT s.id FROM docs.shares s
               WHERE s.company_id = $1 AND s.state = 'revoking' AND s.member_id IS NULL
                 AND s.attempted_at < now() - interval '10 seconds' AND s.folder_id IN (
                   SELECT a.ancestor_id FROM docs.folder_ancestors a WHERE a.folder_id = f.id)) AS "shares_to_remove!",
             ARRAY(
               SELECT p.id FROM docs.folder_ancestors a CROSS JOIN LATERAL (
                 SELECT p.id FROM docs.placements p
                 WHERE p.folder_id = a.ancestor_id AND p.company_id = $1
                   AND (p.state = 'revoking' OR p.state = 'exchanging' OR (p.state = 'pending' AND p.attempts > 0))
                   AND p.attempted_at < now() - interval '10 seconds' OFFSET 0) AS p
               WHERE a.folder_id = f.id) AS "moves_to_finish!"
           FROM docs.folders f WHERE company_id = $1 AND id = $2 AND state <> 'pending'"#,
        call.company.as_uuid(),
        id.as_uuid(),
        call.subject.as_str()
    );
    let Some(row) = row.fetch_optional(&app.core.pool).await? else { return Ok(None) };
    Ok(Some(Found {
        owner: crate::store::subject(&row.owner_kc_sub)?,
        shares_with_login: row.shares_with_login.into_iter().map(ShareId::from).collect(),
        shares_to_remove: row.shares_to_remove.into_iter().map(ShareId::from).collect(),
        moves_to_finish: row.moves_to_finish,
    }))
}
