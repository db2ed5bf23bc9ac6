//! Lists, creates, reads, renames and deletes folders.

use axum::extract::State;
use axum::response::Response;
use contract::page::Page;
use http::HeaderMap;
use serde_json::json;
use service::idempotency::{Key, Once};
use service::query::both;
use service::{ApiError, CompanyCall, Data, LimitedRead, Permit, Query, RawBody, UnreadBody};

use super::admission::{self, Admitted};
use super::row::{FolderRow, NewFolder};
use super::rules::{CreateBody, Folder, RenameBody, StoredFolder, View, subject_of};
use super::store;
use crate::documents::answer::uncached;
use crate::documents::rules::{Looker, Role};
use crate::{App, names, placements};

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Response, ApiError> {
    let words = both(query.word("view", View::WORDS, View::Visible), query.optional_id("parentId"));
    let ((view, parent), page) = both(words, query.page())?;
    let member = match view {
        View::Visible => Some(app.org.member_context(&permit).await?),
        View::All => app.org.member_context_if_any(&permit).await?,
    };
    let looker = Looker { subject: &permit.subject, member: member.as_ref(), manages: view == View::All };
    let found = store::list(&app.core.pool, &permit, view, parent, &looker, page).await?;
    let roles = store::roles(&app.core.pool, &permit, &looker, &found.items).await?;
    let owner = |folder: &StoredFolder| (folder.owner_member, folder.owner.clone());
    let names = names::of_owners(&app, &permit, found.items.iter().map(owner)).await;
    let total = found.total;
    let items = found.items.into_iter().map(|folder| {
        let (role, name) = (roles.get(&folder.id).copied(), names.get(&owner(&folder)).cloned());
        folder.shown(role, name)
    });
    let items: Vec<Folder> = items.collect();
    Ok(uncached(Data(Page::new(page, items, total))))
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Folder>, ApiError> {
    let key = Key::of(&headers)?;
    let body: CreateBody = body.parse()?;
    let member = names::place(&app, &permit).await?;
    let store = admission::into_folder(&app, &permit, body.parent).await?;
    let canonical = body.canonical();
    let attempt = key.map(|key| key.attempt(permit.company, permit.operation.id, &[], &canonical));
    let new = NewFolder {
        company: permit.company,
        owner: permit.subject.clone(),
        member: member.member,
        label: member.display_name,
        name: body.name,
        parent: body.parent,
    };
    store.create(&permit, attempt.as_ref(), &new).await
}

pub(crate) async fn read(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let admitted = admission::admit(&app, call).await?;
    Ok(uncached(shown(&app, &admitted).await?))
}

/// Renders the folder for its caller.
pub(crate) async fn shown(app: &App, admitted: &Admitted) -> Result<Data<Folder>, ApiError> {
    let folder = store::of(&app.core.pool, admitted).await?;
    let member =
        if folder.owner == admitted.subject { None } else { app.org.member_context_if_any(admitted).await? };
    let looker = Looker { subject: &admitted.subject, member: member.as_ref(), manages: admitted.as_manager };
    let roles = store::roles(&app.core.pool, admitted, &looker, std::slice::from_ref(&folder)).await?;
    let allowed = match admitted.feature.relation {
        _ if admitted.as_manager => None,
        "viewer" => Some(Role::Viewer),
        "editor" => Some(Role::Editor),
        _ => None,
    };
    let owner = (folder.owner_member, folder.owner.clone());
    let names = names::of_owners(app, admitted, [owner.clone()].into_iter()).await;
    let (role, name) = (roles.get(&folder.id).copied(), names.get(&owner).cloned());
    Ok(Data(folder.shown(role.max(allowed), name)))
}

pub(crate) async fn rename(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Folder>, ApiError> {
    let admitted = admission::admit(&app, call).await?;
    let RenameBody(name) = body.read().await?.parse()?;
    let mut tx = admitted.permit().begin(&app.core).await?;
    let before = store::rename(&mut tx, admitted.id, &name).await?;
    if before == name {
        tx.unchanged().await?;
    } else {
        let told = json!({ "name": { "from": before, "to": name } });
        tx.commit("folder.renamed", subject_of(admitted.id), told).await?;
    }
    shown(&app, &admitted).await
}

/// Deletes an empty folder together with its shares.
pub(crate) async fn delete(State(app): State<App>, call: CompanyCall) -> Result<Data<Folder>, ApiError> {
    let admitted = admission::admit(&app, call).await?;
    let id = admitted.id.as_uuid();
    placements::unfinished::finish_in(&app, &admitted, admitted.id).await?;
    let deleted = admitted.two_store(&app).remove::<FolderRow>(&admitted, id).await?;
    let role = if admitted.as_manager { Role::Manager } else { Role::Owner };
    Ok(Data(deleted.folder.shown(Some(role), None)))
}
