//! Lists, gives, changes and removes shares of documents. `folders/shares.rs` uses the shared parts for folders.

use axum::extract::State;
use axum::response::Response;
use contract::{Principal, Timestamp};
use service::clients::org::{Found, FoundPrincipal};
use service::idempotency::Once;
use service::two_store::TwoStore;
use service::{ApiError, CompanyCall, Data, UnreadBody};

use super::new::NewShare;
use super::row::{Acted, ChangeRole, FinishRole};
use super::rules::{
    CreateBody, Right, RoleBody, Share, ShareId, ShareRole, Shown, Target, ambiguous, not_linked,
    unknown_principal,
};
use super::{relinked, store};
use crate::admission;
use crate::documents::answer::uncached;
use crate::documents::rules::Looker;
use crate::folders::rules::FolderId;
use crate::placements::rules::Child;
use crate::{App, folders, names, placements};

pub(crate) async fn list(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let _read = app.core.long_reads.enter(&call.subject).await?;
    let mut admitted = admission::admit_trashed(&app, call).await?;
    let target = Target::Document(admitted.gist.id);
    loop {
        let shares = listed(&app, &admitted, target, admitted.as_manager).await?;
        if admitted.held(&app).await? {
            return Ok(uncached(Data(shares)));
        }
    }
}

/// The shares of a target, each with the principal's current name, and then what the folders around it give.
pub(crate) async fn listed(
    app: &App,
    call: &CompanyCall,
    target: Target,
    as_manager: bool,
) -> Result<Vec<Shown>, ApiError> {
    let shares = store::list_given(&app.core.pool, call.company, target).await?;
    let (shares, found) = of_present_logins(app, call, shares).await?;
    let mut listed: Vec<Shown> = shares.into_iter().map(|share| entitled(share, found.as_ref())).collect();
    listed.extend(inherited(app, call, target, as_manager).await?);
    Ok(listed)
}

/// What the folders around a target give to others than its owner.
async fn inherited(
    app: &App,
    call: &CompanyCall,
    target: Target,
    as_manager: bool,
) -> Result<Vec<Shown>, ApiError> {
    let pool = &app.core.pool;
    let child = match target {
        Target::Document(id) => Child::Document(id),
        Target::Folder(id) => Child::Folder(id),
    };
    let folders = placements::store::around(pool, call.company, child).await?;
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let owning = store::list_owning(pool, call.company, target, &folders).await?;
    let given = store::list_inherited(pool, call.company, target, &folders).await?;
    if owning.is_empty() && given.is_empty() {
        return Ok(Vec::new());
    }
    let (given, found) = of_present_logins(app, call, given).await?;
    let owner = |share: &Share| share.principal.member().zip(share.kc_sub.clone());
    let owners = names::of_owners(app, call, owning.iter().filter_map(owner)).await;
    let member = app.org.member_context_if_any(call).await?;
    let looker = Looker { subject: &call.subject, member: member.as_ref(), manages: as_manager };
    let folders: Vec<FolderId> =
        owning.iter().chain(&given).filter_map(|share| share.target.folder()).collect();
    let seen = folders::store::seen(pool, call, &looker, &folders).await?;
    let is_seen = |share: &Share| share.target.folder().is_some_and(|folder| seen.contains(&folder));
    let owning = owning.into_iter().map(|share| {
        let name = owner(&share).and_then(|owner| owners.get(&owner).cloned());
        let is_seen = is_seen(&share);
        share.shown(name).inherited(is_seen)
    });
    let mut all: Vec<Shown> = owning.collect();
    all.extend(given.into_iter().map(|share| {
        let is_seen = is_seen(&share);
        entitled(share, found.as_ref()).inherited(is_seen)
    }));
    Ok(all)
}

/// Removes those of the shares that were given to another login of their member row; returns the others, and what org
/// knows about their principals.
async fn of_present_logins(
    app: &App,
    call: &CompanyCall,
    shares: Vec<Share>,
) -> Result<(Vec<Share>, Option<Found>), ApiError> {
    let principals = shares.iter().map(|share| share.principal);
    let Some(found) = names::found(app, call, principals).await else { return Ok((shares, None)) };
    let (gone, kept): (Vec<Share>, Vec<Share>) =
        shares.into_iter().partition(|share| relinked::is_of_another_login(share, &found));
    for share in gone {
        relinked::take(app, call, share.id).await?;
    }
    Ok((kept, Some(found)))
}

/// Renders the share with the principal's current name, if org knows it.
fn entitled(share: Share, found: Option<&Found>) -> Shown {
    let title = found.and_then(|found| names::title_of(found, share.principal));
    let title = title.map(ToOwned::to_owned);
    share.shown(title)
}

pub(crate) async fn create(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Once<Shown>, ApiError> {
    let mut admitted = admission::admit_sharing(&app, call).await?;
    let body: CreateBody = body.read().await?.parse()?;
    let principal = body.named.one().ok_or_else(ambiguous)?;
    let target = Target::Document(admitted.gist.id);
    loop {
        let (right, store) = (admitted.right(), admitted.two_store(&app));
        let given = if admitted.as_manager {
            give::<true>(&app, &store, &admitted, target, (principal, body.role), right).await
        } else {
            give::<false>(&app, &store, &admitted, target, (principal, body.role), right).await
        };
        match given {
            Err(refused) if admitted.is_decided_again(&app, &refused).await? => {}
            settled => return settled,
        }
    }
}

/// Gives a principal a share.
pub(crate) async fn give<const AS_MANAGER: bool>(
    app: &App,
    store: &TwoStore,
    call: &CompanyCall,
    target: Target,
    (principal, role): (Principal, ShareRole),
    right: Right,
) -> Result<Once<Shown>, ApiError> {
    let new = proposed::<AS_MANAGER>(app, call, target, principal, role, right).await?;
    if let (Some(member), Some(login)) = (principal.member(), &new.share.kc_sub) {
        relinked::settle_link(app, call, target, member, login).await?;
    }
    store.create(call, None, &new).await
}

/// Builds the share to give, after checking its role and looking up its principal.
pub(crate) async fn proposed<const AS_MANAGER: bool>(
    app: &App,
    call: &CompanyCall,
    target: Target,
    principal: Principal,
    role: ShareRole,
    right: Right,
) -> Result<NewShare<AS_MANAGER>, ApiError> {
    right.level.check(role)?;
    let FoundPrincipal { title, kc_sub, .. } =
        app.org.resolve(call, principal).await?.ok_or_else(unknown_principal)?;
    if principal.member().is_some() && kc_sub.is_none() {
        return Err(not_linked());
    }
    let share = Share {
        id: ShareId::mint(),
        company: call.company,
        target,
        principal,
        kc_sub,
        label: Some(title),
        role,
        next_role: None,
        granted_by: call.subject.to_string(),
        revoked_by: None,
        revoked_for: None,
        created_at: now(app),
    };
    Ok(NewShare { share, right })
}

/// The service's clock for a share that is not stored yet; the stored row has the database's time.
fn now(app: &App) -> Timestamp {
    Timestamp::from(app.core.clock.now())
}

pub(crate) async fn update(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Shown>, ApiError> {
    let mut admitted = admission::admit_sharing(&app, call).await?;
    let RoleBody { role } = body.read().await?.parse()?;
    let target = Target::Document(admitted.gist.id);
    loop {
        let (right, share) = (admitted.right(), of_path(&app, &admitted, target).await?);
        let store = admitted.two_store(&app);
        let changed = if admitted.as_manager {
            change::<true>(&app, &store, &admitted, share, role, right).await
        } else {
            change::<false>(&app, &store, &admitted, share, role, right).await
        };
        match changed {
            Err(refused) if admitted.is_decided_again(&app, &refused).await? => {}
            settled => return Ok(Data(named(&app, &admitted, settled?).await)),
        }
    }
}

/// Finds the share in the path.
pub(crate) async fn of_path(app: &App, call: &CompanyCall, target: Target) -> Result<Share, ApiError> {
    let id = call.path.id("shareId")?;
    store::find_of(&app.core.pool, call.company, target, id).await?.ok_or_else(unknown)
}

/// Changes the role of a share; an interrupted change to another role is finished first.
pub(crate) async fn change<const AS_MANAGER: bool>(
    app: &App,
    store: &TwoStore,
    call: &CompanyCall,
    share: Share,
    role: ShareRole,
    right: Right,
) -> Result<Share, ApiError> {
    right.level.check(share.role)?;
    right.level.check(role)?;
    relinked::settle_member(app, call, share.target, share.principal).await?;
    let share = finished::<AS_MANAGER>(store, call, share, role).await?;
    let change = ChangeRole::<AS_MANAGER> { role, right };
    let changed = store.exchange(call, share.id.as_uuid(), &change).await?;
    Ok(changed.0)
}

/// Finishes an interrupted change of the share to any role but this one, and returns the share as it is then.
pub(crate) async fn finished<const AS_MANAGER: bool>(
    store: &TwoStore,
    call: &CompanyCall,
    share: Share,
    role: ShareRole,
) -> Result<Share, ApiError> {
    match share.next_role {
        Some(next) if next != role => {
            Ok(store.exchange(call, share.id.as_uuid(), &FinishRole::<AS_MANAGER>(next)).await?.0)
        }
        _ => Ok(share),
    }
}

/// Renders the share with the principal's current name.
pub(crate) async fn named(app: &App, call: &CompanyCall, share: Share) -> Shown {
    let found = names::found(app, call, [share.principal]).await;
    entitled(share, found.as_ref())
}

/// Removes a share. Those who may share the document may remove any share up to their level; a member may remove the
/// member's own share.
pub(crate) async fn delete(State(app): State<App>, call: CompanyCall) -> Result<Data<Shown>, ApiError> {
    let document = crate::documents::rules::document_of(&call)?;
    let target = Target::Document(document);
    let is_own = is_own(&app, &call, target).await?;
    let mut admitted = if is_own {
        admission::admit_own_share(&app, call).await?
    } else {
        admission::admit_sharing_trashed(&app, call).await?
    };
    loop {
        let share = of_path(&app, &admitted, target).await?;
        let (right, store) = if is_own {
            (Right::WHOLE, app.two_store())
        } else {
            (admitted.right(), admitted.two_store(&app))
        };
        let taken = if admitted.as_manager {
            take::<true>(&store, &admitted, share, right).await
        } else {
            take::<false>(&store, &admitted, share, right).await
        };
        match taken {
            Err(refused) if admitted.is_decided_again(&app, &refused).await? => {}
            settled => return Ok(Data(named(&app, &admitted, settled?).await)),
        }
    }
}

/// Whether the share in the path is the caller's own member share. It selects the question to authz and is not shown.
pub(crate) async fn is_own(app: &App, call: &CompanyCall, target: Target) -> Result<bool, ApiError> {
    let id = call.path.id("shareId")?;
    let share = store::find_of(&app.core.pool, call.company, target, id).await?;
    Ok(share.is_some_and(|share| share.kc_sub.as_ref() == Some(&call.subject)))
}

/// Removes a share; an interrupted role change is finished first.
pub(crate) async fn take<const AS_MANAGER: bool>(
    store: &TwoStore,
    call: &CompanyCall,
    share: Share,
    right: Right,
) -> Result<Share, ApiError> {
    right.level.check(share.role)?;
    let id = share.id.as_uuid();
    if let Some(next) = share.next_role {
        store.exchange(call, id, &FinishRole::<AS_MANAGER>(next)).await?;
    }
    Ok(store.remove_guarded::<Acted<AS_MANAGER>>(call, id, &right).await?.0)
}

/// 404 for an unknown share.
fn unknown() -> ApiError {
    ApiError::NotFound("share".into())
}
