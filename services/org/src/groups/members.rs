//! `/internal/org/admin/groups/{id}/members`.

use axum::extract::State;
use contract::id::{GroupId, MemberId};
use serde_json::{Map, json};
use service::{
    ApiError, AuditEvent, AuditedTx, Correlation, Created, Data, LimitedRead, PathParams, RawBody, Superadmin,
};

use super::rules::{NewGroupMember, OrgGroup, OrgGroupMember, RemovedMember};
use super::store;
use crate::App;
use crate::events::event;
use crate::members::rules::OrgMember;
use crate::members::store::lock_all;
use crate::tuples;
use crate::units::store::share_company;

/// Lists the members of a group. The route has neither 400 nor 404, so a malformed id yields an empty list.
pub(crate) async fn list(
    State(app): State<App>,
    _caller: LimitedRead<Superadmin>,
    path: PathParams,
) -> Result<Data<Vec<OrgGroupMember>>, ApiError> {
    let Some(group) = path.parsed::<GroupId>("id") else { return Ok(Data(Vec::new())) };
    Ok(Data(store::members(&app.core.pool, group).await?))
}

/// Adds a member to a group.
pub(crate) async fn add(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<OrgGroupMember>, ApiError> {
    let group: GroupId = path.id("id")?;
    let NewGroupMember(member) = body.parse()?;
    let mut tx = caller.begin(&app, &id).await?;
    let (group, member) = held(&mut tx, group, member).await?;
    group.managed_here()?;
    let added_at = store::add(tx.conn(), &group, member.id, caller.subject.as_str()).await?;
    commit(tx, &group, &member, "group.member_added").await?;
    Ok(Created(OrgGroupMember {
        group_id: group.id,
        member_id: member.id,
        added_by: caller.subject.to_string(),
        added_at,
        member_display_name: member.display_name,
        member_email: member.email,
    }))
}

/// Removes a member from a group.
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
) -> Result<Data<RemovedMember>, ApiError> {
    let group: GroupId = path.id_or_not_found("id", "group")?;
    let member: MemberId = path.id_or_not_found("memberId", "member")?;
    let mut tx = caller.begin(&app, &id).await?;
    let (group, member) = held(&mut tx, group, member).await?;
    group.managed_here()?;
    if !store::remove(tx.conn(), group.id, member.id).await? {
        return Err(ApiError::NotFound("group member".into()));
    }
    let removed = RemovedMember { group_id: group.id, member_id: member.id };
    commit(tx, &group, &member, "group.member_removed").await?;
    Ok(Data(removed))
}

/// Locks and returns the group and the member, in the order that every writer follows.
///
/// # Errors
/// 404 if there is no such group, or no such member in its company.
async fn held(
    tx: &mut AuditedTx,
    group: GroupId,
    member: MemberId,
) -> Result<(OrgGroup, OrgMember), ApiError> {
    let found = store::find(tx.conn(), group).await?.ok_or(ApiError::NotFound("group".into()))?;
    share_company(tx.conn(), found.company_id).await?;
    store::share(tx.conn(), group).await?;
    let members = lock_all(tx.conn(), found.company_id, &[member]).await?;
    let member = members.into_iter().next().ok_or(ApiError::NotFound("member".into()))?;
    Ok((found, member))
}

async fn commit(
    mut tx: AuditedTx,
    group: &OrgGroup,
    member: &OrgMember,
    action: &'static str,
) -> Result<(), ApiError> {
    if let Some(subject) = &member.user_id {
        tuples::store::rewrite(tx.conn(), group.company_id, std::slice::from_ref(subject)).await?;
    }
    tx.commit(&changed(group, member, action)).await
}

fn changed(group: &OrgGroup, member: &OrgMember, action: &'static str) -> AuditEvent {
    let is_added = action == "group.member_added";
    let (from, to) = if is_added { (None, Some(member.id)) } else { (Some(member.id), None) };
    let payload = Map::from_iter([("memberId".to_owned(), json!({ "from": from, "to": to }))]);
    event(group.company_id, action, "group", group.id, payload)
}
