//! Creates, lists, accepts and declines requests for access.

use axum::extract::State;
use axum::response::Response;
use contract::Principal;
use serde_json::{Value, json};
use service::query::both;
use service::refusal::conflict;
use service::{ApiError, CompanyCall, Created, Data, Query, UnreadBody};

use super::met::{Given, Raised};
use super::rules::{
    ACCEPTED, AccessRequest, AccessRequestId, CREATED, DECLINED, RequestBody, Status, decided,
};
use super::store;
use crate::admission::{self, Admitted};
use crate::documents::answer::uncached;
use crate::documents::http::managed;
use crate::documents::rules::{Looker, Role, State as Stored, subject_of, unknown as unknown_document};
use crate::documents::store as documents;
use crate::shares::relinked::REASON;
use crate::shares::row::ChangeRole;
use crate::shares::rules::{Share, ShareRole, Target};
use crate::{App, names, shares, visibility};

/// Any active member may ask, except for a role that the member already has.
pub(crate) async fn create(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Created<AccessRequest>, ApiError> {
    let admitted = admission::admit_member(&app, call).await?;
    let body: RequestBody = body.read().await?.parse()?;
    let member = names::place(&app, &admitted).await?;
    let looker = Looker { subject: &admitted.subject, member: Some(&member), manages: false };
    let id = admitted.gist.id;
    let mut tx = admitted.begin(&app.core).await?;
    let (document, ..) = documents::lock(&mut tx, id).await?;
    if document.state != Stored::Active {
        return Err(unknown_document());
    }
    // A share that is being given meets the request when it is settled, which takes the document's lock as well.
    let rank = visibility::ranks(tx.conn(), &admitted, &looker, &[id]).await?.get(&id).copied();
    let held = Role::of_rank(rank.unwrap_or_default());
    if document.owner == admitted.subject || held >= Some(as_role(body.role)) {
        return Err(conflict("ACCESS_HELD", "the caller already has this role", Value::Null));
    }
    if let Some(former) = store::decline_former(&mut tx, id, member.member).await? {
        let told = json!({ "accessRequestId": former, "reason": REASON });
        tx.record(DECLINED, subject_of(id), told).await?;
    }
    let made = store::add(&mut tx, id, member.member, &body).await?;
    let told = json!({ "accessRequestId": made.id, "memberId": made.member_id, "role": made.role });
    tx.commit(CREATED, subject_of(id), told).await?;
    Ok(Created(AccessRequest { display_name: member.display_name, ..made }))
}

const fn as_role(role: ShareRole) -> Role {
    match role {
        ShareRole::Viewer => Role::Viewer,
        ShareRole::Commenter => Role::Commenter,
        ShareRole::Editor => Role::Editor,
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Response, ApiError> {
    let mut admitted = admission::admit_sharing(&app, call).await?;
    let _read = admitted.wait_to_read(&app).await?;
    let (status, page) = both(query.optional_word("status", Status::WORDS), query.page())?;
    let mut found = loop {
        let found = store::list(&app.core.pool, &admitted, status, page).await?;
        if admitted.held(&app).await? {
            break found;
        }
    };
    let names = names::of_members(&app, &admitted, found.items.iter().map(|one| one.member_id)).await;
    for request in &mut found.items {
        request.display_name = names.get(&request.member_id).cloned();
    }
    Ok(uncached(Data(found)))
}

/// Accepts a request by giving a share, or raising the present one to the requested role. The share's transaction also
/// marks the request as accepted, so that neither exists without the other.
pub(crate) async fn accept(
    State(app): State<App>,
    call: CompanyCall,
) -> Result<Data<AccessRequest>, ApiError> {
    let mut admitted = admission::admit_sharing(&app, call).await?;
    let request = open_of_path(&app, &admitted).await?;
    loop {
        let met = if admitted.as_manager {
            meet::<true>(&app, &mut admitted, &request).await
        } else {
            meet::<false>(&app, &mut admitted, &request).await
        };
        match met {
            Err(refused) if admitted.is_decided_again(&app, &refused).await? => {}
            settled => break settled?,
        }
    }
    shown(&app, &admitted, request.id).await
}

async fn meet<const AS_MANAGER: bool>(
    app: &App,
    admitted: &mut Admitted,
    request: &AccessRequest,
) -> Result<(), ApiError> {
    let target = Target::Document(admitted.gist.id);
    let right = admitted.right();
    let principal = Principal::Member(request.member_id);
    shares::relinked::settle_member(app, admitted, target, principal).await?;
    let present = shares::store::list(&app.core.pool, admitted.company, target).await?;
    let present: Option<Share> = present.into_iter().find(|share| share.principal == principal);
    if let Some(share) = &present {
        store::check_login(&app.core.pool, admitted.company, request.id, share.kc_sub.as_ref()).await?;
    }
    let present = match present {
        Some(share) => {
            let store = admitted.two_store(app);
            Some(shares::http::finished::<AS_MANAGER>(&store, admitted, share, request.role).await?)
        }
        None => None,
    };
    match present {
        Some(share) if share.role >= request.role && share.next_role.is_none() => {
            // Another call has given this role meanwhile without accepting the request, so accept it now.
            decide(app, admitted, request.id, Status::Accepted, ACCEPTED).await
        }
        Some(share) => {
            right.level.check(share.role)?;
            right.level.check(request.role)?;
            let change = ChangeRole::<AS_MANAGER> { role: request.role, right };
            let raised = Raised { request: request.clone(), change };
            admitted.two_store(app).exchange(admitted, share.id.as_uuid(), &raised).await.map(drop)
        }
        None => {
            let share = shares::http::proposed::<AS_MANAGER>;
            let share = share(app, admitted, target, principal, request.role, right).await?;
            let login = share.share.kc_sub.as_ref();
            store::check_login(&app.core.pool, admitted.company, request.id, login).await?;
            admitted.two_store(app).create(admitted, None, &Given { request, share }).await.map(drop)
        }
    }
}

pub(crate) async fn decline(
    State(app): State<App>,
    call: CompanyCall,
) -> Result<Data<AccessRequest>, ApiError> {
    let mut admitted = admission::admit_sharing(&app, call).await?;
    let request = open_of_path(&app, &admitted).await?;
    decide(&app, &mut admitted, request.id, Status::Declined, DECLINED).await?;
    shown(&app, &admitted, request.id).await
}

async fn decide(
    app: &App,
    admitted: &mut Admitted,
    id: AccessRequestId,
    status: Status,
    action: &'static str,
) -> Result<(), ApiError> {
    let (mut tx, document, _) = admitted.lock(app).await?;
    admitted.right().check(document.state, document.editors_can_share, admitted.gist.rights)?;
    if status == Status::Declined && store::is_being_met(&mut tx, id).await? {
        return Err(decided());
    }
    if !store::decide(&mut tx, admitted.gist.id, id, status).await? {
        return Err(decided());
    }
    let told = json!({ "accessRequestId": id });
    let told = managed(admitted, told.as_object().cloned().unwrap_or_default());
    tx.commit(action, subject_of(admitted.gist.id), told).await
}

async fn open_of_path(app: &App, admitted: &Admitted) -> Result<AccessRequest, ApiError> {
    let id = admitted.path.id("accessRequestId")?;
    let found = store::find(&app.core.pool, admitted.company, admitted.gist.id, id).await?;
    let found = found.ok_or_else(unknown)?;
    if found.status == Status::Open { Ok(found) } else { Err(decided()) }
}

async fn shown(app: &App, admitted: &Admitted, id: AccessRequestId) -> Result<Data<AccessRequest>, ApiError> {
    let found = store::find(&app.core.pool, admitted.company, admitted.gist.id, id).await?;
    let found = found.ok_or_else(unknown)?;
    let names = names::of_members(app, admitted, [found.member_id].into_iter()).await;
    let display_name = names.get(&found.member_id).cloned();
    Ok(Data(AccessRequest { display_name, ..found }))
}

/// 404 for an unknown access request.
fn unknown() -> ApiError {
    ApiError::NotFound("access request".into())
}
