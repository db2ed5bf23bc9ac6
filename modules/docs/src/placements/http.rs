//! Moves documents and folders.

use axum::extract::State;
use service::two_store::TwoStore;
use service::{ApiError, CompanyCall, Data, UnreadBody};

use super::row::{ChangeParent, Decided, Moved, NewPlacement, Placement, moves};
use super::rules::{Child, DocumentMove, FolderMove};
use super::store;
use crate::documents::rules::{Document, State as Stored};
use crate::folders::rules::{Folder, FolderId};
use crate::{App, admission, documents, folders};

pub(crate) async fn move_document(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Option<Document>>, ApiError> {
    let mut admitted = admission::admit_move(&app, call).await?;
    let DocumentMove(to) = body.read().await?.parse()?;
    let child = Child::Document(admitted.gist.id);
    loop {
        if admitted.takes_out && to.is_some() {
            admission::check_manager(&app, &admitted).await?;
        }
        let decided = Decided::Document { rights: admitted.gist.rights, takes_out: admitted.takes_out };
        let own = admitted.two_store(&app);
        match move_to(&app, own, &admitted, (child, to), admitted.as_manager, decided).await {
            Err(refused) if admitted.is_decided_again(&app, &refused).await? => {}
            settled => break settled?,
        }
    }
    let (document, _, _) = documents::store::find(&app.core.pool, &admitted).await?;
    // A document in the trash is shown to its managers only.
    if document.state == Stored::Trashed && !admitted.managed {
        return Ok(Data(None));
    }
    Ok(Data(Some(documents::answer::shown(&app, &admitted, document).await?)))
}

pub(crate) async fn move_folder(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Folder>, ApiError> {
    let admitted = folders::admission::admit_move(&app, call).await?;
    let FolderMove(to) = body.read().await?.parse()?;
    let decided = match admitted.takes_out_of {
        Some(parent) => Decided::Subfolder(parent),
        None => Decided::Folder,
    };
    if admitted.takes_out_of.is_some() && to.is_some() {
        folders::admission::check_manager(&app, &admitted).await?;
    }
    let own = admitted.two_store(&app);
    move_to(&app, own, &admitted, (Child::Folder(admitted.id), to), admitted.as_manager, decided).await?;
    folders::http::shown(&app, &admitted).await
}

/// Moves a child into a folder while the caller may put something there, or out of all with the caller's own right, which
/// `own` holds.
async fn move_to(
    app: &App,
    own: TwoStore,
    call: &CompanyCall,
    (child, to): (Child, Option<FolderId>),
    as_manager: bool,
    decided: Decided,
) -> Result<(), ApiError> {
    let two_store = if to.is_some() { folders::admission::into_folder(app, call, to).await? } else { own };
    let found = store::of_child(&app.core.pool, call.company, child).await?;
    let settled = if as_manager {
        settle::<true>(&two_store, call, child, found, to, decided).await
    } else {
        settle::<false>(&two_store, call, child, found, to, decided).await
    };
    // Another request has removed the placement since it was read; the child and the target were looked up before, so
    // 404 would mislead.
    settled.map_err(|error| if matches!(error, ApiError::NotFound(_)) { moves() } else { error })
}

/// Moves a child from where it is to where it should be; an interrupted move is finished first.
async fn settle<const AS_MANAGER: bool>(
    two_store: &TwoStore,
    call: &CompanyCall,
    child: Child,
    mut found: Option<Placement>,
    to: Option<FolderId>,
    decided: Decided,
) -> Result<(), ApiError> {
    if let Some(placement) = found.take_if(|placement| placement.state == "revoking") {
        end::<AS_MANAGER>(two_store, call, &placement, decided).await?;
    }
    match (found, to) {
        (None, None) => Ok(()),
        (None, Some(parent)) => begin::<AS_MANAGER>(two_store, call, child, parent, decided).await,
        (Some(placement), None) => {
            finish::<AS_MANAGER>(two_store, call, &placement, decided).await?;
            end::<AS_MANAGER>(two_store, call, &placement, decided).await
        }
        (Some(placement), Some(parent)) if placement.state == "pending" => {
            if placement.parent != parent {
                return Err(moves());
            }
            begin::<AS_MANAGER>(two_store, call, child, parent, decided).await
        }
        (Some(placement), Some(parent)) => two_store
            .exchange(call, placement.id, &ChangeParent::<AS_MANAGER> { parent, decided })
            .await
            .map(drop),
    }
}

async fn begin<const AS_MANAGER: bool>(
    two_store: &TwoStore,
    call: &CompanyCall,
    child: Child,
    parent: FolderId,
    decided: Decided,
) -> Result<(), ApiError> {
    let new = NewPlacement::<AS_MANAGER> { company: call.company, child, parent, decided };
    two_store.create(call, None, &new).await.map(drop)
}

async fn end<const AS_MANAGER: bool>(
    two_store: &TwoStore,
    call: &CompanyCall,
    placement: &Placement,
    decided: Decided,
) -> Result<(), ApiError> {
    two_store.remove_guarded::<Moved<AS_MANAGER>>(call, placement.id, &decided).await.map(drop)
}

/// Finishes a pending or changing placement, so that it can be ended.
async fn finish<const AS_MANAGER: bool>(
    two_store: &TwoStore,
    call: &CompanyCall,
    placement: &Placement,
    decided: Decided,
) -> Result<(), ApiError> {
    if placement.state == "pending" {
        return begin::<AS_MANAGER>(two_store, call, placement.child, placement.parent, decided).await;
    }
    let Some(parent) = placement.next else { return Ok(()) };
    two_store.exchange(call, placement.id, &ChangeParent::<AS_MANAGER> { parent, decided }).await.map(drop)
}
