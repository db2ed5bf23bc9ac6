//! Lists, creates, reads, updates and duplicates documents, and moves them to and from the trash.

use axum::extract::State;
use axum::response::Response;
use contract::fields::{Fields, FromBody};
use contract::page::Page;
use http::HeaderMap;
use serde_json::{Map, Value, json};
use service::clients::org::MemberContext;
use service::idempotency::{Key, Once};
use service::query::both;
use service::refusal::conflict;
use service::{ApiError, CompanyCall, Data, LimitedRead, Permit, Query, RawBody, UnreadBody, changes};

use super::answer::{shown, uncached};
use super::list::{self, Selection};
use super::new::NewDocument;
use super::rules::{
    Content, CreateBody, Detail, Document, DocumentId, DuplicateBody, GeneralAccess, Looker, MAX_SEARCH,
    Role, State as Stored, StoredDocument, UpdateBody, View, trashed,
};
use super::store;
use crate::admission::{self, Admitted};
use crate::{App, folders, names, visibility};

const FLAGS: &[(&str, bool)] = &[("true", true), ("false", false)];

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Response, ApiError> {
    let words = both(query.word("view", View::WORDS, View::Mine), query.text("q", MAX_SEARCH));
    let filters = both(query.optional_id("folderId"), query.word("templates", FLAGS, false));
    let (((view, search), (folder, templates)), page) = both(both(words, filters), query.page())?;
    let member = place(&app, &permit, view).await?;
    let looker = Looker { subject: &permit.subject, member: member.as_ref(), manages: view.is_managers() };
    let selection = Selection { view, search, folder, templates, looker };
    let found = list::page(&app.core.pool, &permit, &selection, page).await?;
    let ids: Vec<DocumentId> = found.items.iter().map(|document| document.id).collect();
    let owner = |document: &StoredDocument| (document.owner_member, document.owner.clone());
    let ranks = visibility::ranks(&app.core.pool, &permit, &selection.looker, &ids);
    let names = names::of_owners(&app, &permit, found.items.iter().map(owner));
    let (ranks, names) = tokio::join!(ranks, names);
    let ranks = ranks?;
    let show = |document: StoredDocument| {
        let rank = ranks.get(&document.id).copied().unwrap_or_default();
        let role = Role::of(&document, &selection.looker, rank);
        let name = names.get(&owner(&document)).cloned();
        document.shown(role, name)
    };
    let items: Vec<Document> = found.items.into_iter().map(show).collect();
    Ok(uncached(Data(Page::new(page, items, found.total))))
}

/// The caller's member row where the view needs it; an owner's own documents need only the subject.
async fn place(app: &App, permit: &Permit, view: View) -> Result<Option<MemberContext>, ApiError> {
    match view {
        View::Mine | View::Trash => Ok(None),
        View::Shared | View::Visible => app.org.member_context(permit).await.map(Some),
        View::All | View::TrashAll => app.org.member_context_if_any(permit).await,
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Detail>, ApiError> {
    let key = Key::of(&headers)?;
    let body: CreateBody = body.parse()?;
    let member = names::place(&app, &permit).await?;
    let store = folders::admission::into_folder(&app, &permit, body.folder).await?;
    let canonical = body.canonical();
    let attempt = key.map(|key| key.attempt(permit.company, permit.operation.id, &[], &canonical));
    let new = NewDocument {
        company: permit.company,
        owner: permit.subject.clone(),
        member: member.member,
        label: member.display_name,
        content: Content { title: body.title, body: body.body },
        folder: body.folder,
        is_template: body.is_template,
    };
    store.create(&permit, attempt.as_ref(), &new).await
}

pub(crate) async fn read(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let _read = app.core.long_reads.enter(&call.subject).await?;
    let mut admitted = admission::admit(&app, call).await?;
    let (document, content) = admitted.confirmed(&app).await?;
    Ok(uncached(Data(shown(&app, &admitted, document).await?.with_body(content.body))))
}

pub(crate) async fn update(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Detail>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let body: UpdateBody = body.read().await?.parse()?;
    let (mut tx, document, current) = admitted.lock(&app).await?;
    let update = body.of(&document, &current)?;
    if update.is_nothing() {
        tx.unchanged().await?;
        return Ok(Data(shown(&app, &admitted, document).await?.with_body(current.body)));
    }
    if let Some(content) = &update.content {
        store::add_version(&mut tx, &document, content, None).await?;
    }
    if let Some(flag) = update.is_template {
        store::set_template(&mut tx, document.id, flag).await?;
    }
    let told = update.told(&document, &current);
    let (written, content) = store::written(&mut tx, document.id).await?;
    tx.commit("document.updated", document.audit_subject(), told).await?;
    Ok(Data(shown(&app, &admitted, written).await?.with_body(content.body)))
}

/// The document as it is now, without its text.
pub(crate) async fn summary(app: &App, admitted: &Admitted) -> Result<Data<Document>, ApiError> {
    let (document, _, _) = store::find(&app.core.pool, admitted).await?;
    Ok(Data(shown(app, admitted, document).await?))
}

pub(crate) async fn trash(State(app): State<App>, call: CompanyCall) -> Result<Data<Document>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    move_to(&app, &mut admitted, Stored::Trashed).await
}

pub(crate) async fn restore(State(app): State<App>, call: CompanyCall) -> Result<Data<Document>, ApiError> {
    let mut admitted = admission::admit_trashed(&app, call).await?;
    move_to(&app, &mut admitted, Stored::Active).await
}

async fn move_to(app: &App, admitted: &mut Admitted, to: Stored) -> Result<Data<Document>, ApiError> {
    let (mut tx, document, _) = admitted.lock(app).await?;
    let action = match (document.state, to) {
        (Stored::Trashed, Stored::Trashed) => return Err(trashed()),
        (_, Stored::Trashed) => "document.trashed",
        (Stored::Trashed, _) => "document.restored",
        _ => return Err(conflict("DOCUMENT_NOT_TRASHED", "the document is not in the trash", Value::Null)),
    };
    store::set_trashed(&mut tx, &document, to == Stored::Trashed).await?;
    let (written, _) = store::written(&mut tx, document.id).await?;
    tx.commit(action, document.audit_subject(), managed(admitted, Map::new())).await?;
    Ok(Data(shown(app, admitted, written).await?))
}

/// Adds `asManager` to an audit row's payload when a manager acts on another member's document.
pub(crate) fn managed(admitted: &Admitted, mut payload: Map<String, Value>) -> Map<String, Value> {
    if admitted.as_manager {
        payload.insert("asManager".to_owned(), true.into());
    }
    payload
}

/// The body of an access change; omitted members stay as they are.
struct AccessBody {
    general_access: Option<GeneralAccess>,
    editors_can_share: Option<bool>,
}

impl FromBody for AccessBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let general_access = fields.optional_word("generalAccess", GeneralAccess::WORDS);
        let editors_can_share = fields.optional_bool("editorsCanShare");
        Some(Self { general_access: general_access?, editors_can_share: editors_can_share? })
    }
}

pub(crate) async fn set_access(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Document>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let body: AccessBody = body.read().await?.parse()?;
    let (mut tx, document, _) = admitted.lock(&app).await?;
    if document.state != Stored::Active {
        return Err(trashed());
    }
    let told = |access: GeneralAccess, can_share: bool| json!({ "generalAccess": access, "editorsCanShare": can_share });
    let access = body.general_access.unwrap_or(document.general_access);
    let can_share = body.editors_can_share.unwrap_or(document.editors_can_share);
    let before = told(document.general_access, document.editors_can_share);
    let changed = changes(Some(&before), &told(access, can_share))?;
    if changed.is_empty() {
        tx.unchanged().await?;
        return Ok(Data(shown(&app, &admitted, document).await?));
    }
    store::set_access(&mut tx, &document, access, can_share).await?;
    let (written, _) = store::written(&mut tx, document.id).await?;
    tx.commit("access.changed", document.audit_subject(), managed(&admitted, changed)).await?;
    Ok(Data(shown(&app, &admitted, written).await?))
}

/// Creates a copy of the current text, owned by the caller; shares are not copied.
pub(crate) async fn duplicate(
    State(app): State<App>,
    call: CompanyCall,
    headers: HeaderMap,
    body: UnreadBody,
) -> Result<Once<Detail>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let key = Key::of(&headers)?;
    let DuplicateBody { title, folder }: DuplicateBody = body.read().await?.parse()?;
    let member = names::place(&app, &admitted).await?;
    let store = folders::admission::into_folder(&app, &admitted, folder).await?;
    let canonical = json!({ "title": title, "folderId": folder });
    let source = admitted.gist.id.to_string();
    let attempt = key.map(|key| key.attempt(admitted.company, admitted.operation.id, &[&source], &canonical));
    let (_, content) = admitted.confirmed(&app).await?;
    let new = NewDocument {
        company: admitted.company,
        owner: admitted.subject.clone(),
        member: member.member,
        label: member.display_name,
        content: Content { title: title.unwrap_or(content.title), body: content.body },
        folder,
        is_template: false,
    };
    store.create(&admitted, attempt.as_ref(), &new).await
}
