//! `/internal/org/admin/members/{id}/link-user`: links a member to a subject of the identity provider, or unlinks it.

use axum::extract::State;
use contract::id::MemberId;
use service::caller::Correlation;
use service::{ApiError, AuditedTx, Data, PathParams, RawBody, Superadmin, changes};

use super::http::{held, is_former};
use super::rules::{LinkRequest, OrgMember, is_new_link};
use super::store;
use crate::App;
use crate::events::event;
use crate::tuples;

/// Links a member to a subject that identity knows. Changes nothing if they are already linked.
pub(crate) async fn link(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<OrgMember>, ApiError> {
    let member: MemberId = path.id("id")?;
    let LinkRequest(subject) = body.parse()?;
    if store::find(&app.core.pool, member).await?.is_none() {
        return Err(ApiError::NotFound("member".into()));
    }
    if !app.identity.knows(&subject, &id).await? {
        return Err(ApiError::NotFound("user".into()));
    }
    let mut tx = caller.begin(&app, &id).await?;
    let before = held(&mut tx, member).await?;
    if !is_new_link(&before, &subject)? {
        tx.unchanged().await?;
        return Ok(Data(before));
    }
    store::name_salt(tx.conn(), member).await?.ok_or_else(is_former)?;
    store::link(tx.conn(), member, Some(&subject)).await?;
    let after = OrgMember { user_id: Some(subject.to_string()), ..before.clone() };
    commit(tx, &before, after, "member.linked").await
}

/// Removes a member's link; changes nothing if there is none.
pub(crate) async fn unlink(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
) -> Result<Data<OrgMember>, ApiError> {
    let member: MemberId = path.id("id")?;
    let mut tx = caller.begin(&app, &id).await?;
    let before = held(&mut tx, member).await?;
    if before.user_id.is_none() {
        tx.unchanged().await?;
        return Ok(Data(before));
    }
    store::link(tx.conn(), member, None).await?;
    let after = OrgMember { user_id: None, ..before.clone() };
    commit(tx, &before, after, "member.unlinked").await
}

async fn commit(
    mut tx: AuditedTx,
    before: &OrgMember,
    after: OrgMember,
    action: &'static str,
) -> Result<Data<OrgMember>, ApiError> {
    let subject = before.user_id.as_ref().or(after.user_id.as_ref());
    if let Some(subject) = subject {
        tuples::store::rewrite(tx.conn(), after.company_id, std::slice::from_ref(subject)).await?;
    }
    let changed = changes(Some(before), &after)?;
    tx.commit(&event(after.company_id, action, "member", after.id, changed)).await?;
    Ok(Data(after))
}
