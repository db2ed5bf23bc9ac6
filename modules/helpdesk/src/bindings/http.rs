//! Lists, creates and removes bindings.

use axum::extract::State;
use contract::Principal;
use serde_json::json;
use service::clients::org::FoundPrincipal;
use service::idempotency::Once;
use service::refusal::broken;
use service::two_store::TupleRow;
use service::{ApiError, Body, Data, Permit, Query};

use super::guard::LastAdministrator;
use super::row::{BindingRow, NewBinding};
use super::rules::{Binding, BindingBody, BoundTier};
use super::{relinked, store};
use crate::App;
use crate::tickets::names::Names;

pub(crate) async fn list(State(app): State<App>, permit: Permit) -> Result<Data<Vec<Binding>>, ApiError> {
    let found = store::list(&app.core.pool, &permit).await?;
    let names = Names::of_all(&app, &permit, found.iter().map(|binding| binding.principal)).await;
    Ok(Data(found.into_iter().map(|binding| binding.shown(&names)).collect()))
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<BindingBody>,
) -> Result<Once<Binding>, ApiError> {
    let BindingBody { named, tier } = body;
    let Some(principal) = named.one() else {
        let message = "exactly one of memberId, positionId and groupId is required";
        return Err(broken("BINDING_SUBJECT_AMBIGUOUS", message, json!({})));
    };
    let found = known(&app, &permit, principal).await?;
    relinked::settle_bound(&app, &permit, &found).await?;
    let new = NewBinding::of(permit.company, &found, tier, &permit.subject, &app.core.clock);
    app.two_store().create(&permit, None, &new).await
}

/// Finds an active member with a login, a position, or an active group of the company. A vacant position and an empty
/// group may be bound.
async fn known(app: &App, permit: &Permit, principal: Principal) -> Result<FoundPrincipal, ApiError> {
    let found = app.org.resolve(permit, principal).await?;
    let details = || json!({ "bindingKind": principal.kind() });
    let unknown = || broken("BINDING_SUBJECT_UNKNOWN", "the company has no such active subject", details());
    let found = found.ok_or_else(unknown)?;
    if principal.member().is_some() && found.kc_sub.is_none() {
        return Err(broken("MEMBER_NOT_LINKED", "the member has no login", details()));
    }
    Ok(found)
}

pub(crate) async fn delete_position(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Binding>, ApiError> {
    let principal = Principal::Position(permit.path.id("positionId")?);
    deleted(&app, &permit, &query, principal).await
}

pub(crate) async fn delete_group(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Binding>, ApiError> {
    let principal = Principal::Group(permit.path.id("groupId")?);
    deleted(&app, &permit, &query, principal).await
}

pub(crate) async fn delete_member(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Binding>, ApiError> {
    let principal = Principal::Member(permit.path.id("memberId")?);
    deleted(&app, &permit, &query, principal).await
}

/// Removes the binding of a principal; an id that is bound as another kind is unknown.
async fn deleted(
    app: &App,
    permit: &Permit,
    query: &Query,
    principal: Principal,
) -> Result<Data<Binding>, ApiError> {
    let tier = query.word("tier", BoundTier::WORDS, BoundTier::Admin)?;
    let found = store::of(&app.core.pool, permit.company, principal, tier).await?;
    let (id, _) = found.ok_or_else(|| ApiError::NotFound(BindingRow::NOUN.into()))?;
    let guard = LastAdministrator { authz: &app.authz, org: &app.org, correlation: &permit.correlation };
    let removed = app.two_store().remove_guarded(permit, id, &guard).await?;
    let names = Names::of_all(app, permit, [principal]).await;
    Ok(Data(removed.stored.shown(&names)))
}
