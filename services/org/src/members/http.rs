//! `/internal/org/admin/members`.

use axum::extract::State;
use contract::id::MemberId;
use contract::page::Page;
use service::caller::Correlation;
use service::{
    ApiError, AuditEvent, AuditedTx, Created, Data, LimitedRead, PathParams, Query, RawBody, Superadmin,
    changes, pseudonymise,
};

use super::rules::{MemberChange, NAMES, NewMember, OrgMember};
use super::store;
use crate::App;
use crate::events::event;
use crate::tuples;
use crate::units::store::share_company;

/// Creates a member; it has no login until it is linked to a subject.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<OrgMember>, ApiError> {
    let member = body.parse::<NewMember>()?.member();
    let mut tx = caller.begin(&app, &id).await?;
    let Some(salt) = store::insert(tx.conn(), &member).await? else {
        return Err(ApiError::unprocessable_field("companyId", "unknown", "no such company"));
    };
    tx.commit(&created(&member, &salt)?).await?;
    Ok(Created(member))
}

/// Lists a page of a company's members.
pub(crate) async fn list(
    State(app): State<App>,
    _caller: LimitedRead<Superadmin>,
    query: Query,
) -> Result<Data<Page<OrgMember>>, ApiError> {
    let company = query.id("companyId")?;
    let page = query.page()?;
    Ok(Data(store::page(&app.core.pool, company, page).await?))
}

/// Changes the fields that the body contains.
pub(crate) async fn update(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<OrgMember>, ApiError> {
    let member = path.id("id")?;
    let change: MemberChange = body.parse()?;
    let mut tx = caller.begin(&app, &id).await?;
    let before = held(&mut tx, member).await?;
    let after = change.applied_to(&before);
    let mut changed = changes(Some(&before), &after)?;
    if changed.is_empty() {
        tx.unchanged().await?;
        return Ok(Data(after));
    }
    let salt = store::name_salt(tx.conn(), member).await?.ok_or_else(is_former)?;
    pseudonymise(&mut changed, &salt, &NAMES);
    store::update(tx.conn(), &after).await?;
    if let Some(subject) = &after.user_id {
        tuples::store::rewrite(tx.conn(), after.company_id, std::slice::from_ref(subject)).await?;
    }
    tx.commit(&event(after.company_id, "member.updated", "member", after.id, changed)).await?;
    Ok(Data(after))
}

/// Locks the company's and the member's rows, in the order that every writer follows, and returns the member.
///
/// # Errors
/// 404 if there is no such member.
pub(crate) async fn held(tx: &mut AuditedTx, id: MemberId) -> Result<OrgMember, ApiError> {
    let unknown = || ApiError::NotFound("member".into());
    let found = store::find(&mut *tx.conn(), id).await?.ok_or_else(unknown)?;
    share_company(tx.conn(), found.company_id).await?;
    store::lock(tx.conn(), id).await?.ok_or_else(unknown)
}

/// The refusal to change a former member: the account behind the row is closed permanently.
pub(super) fn is_former() -> ApiError {
    ApiError::conflict("the member's account is closed")
}

fn created(member: &OrgMember, salt: &[u8]) -> Result<AuditEvent, ApiError> {
    let mut payload = changes(None, member)?;
    pseudonymise(&mut payload, salt, &NAMES);
    Ok(event(member.company_id, "member.created", "member", member.id, payload))
}
