//! `/internal/org/admin/positions/{id}/assignments` and `/internal/org/admin/assignments/{id}/end`.

use axum::extract::State;
use contract::envelope::code;
use contract::id::{AssignmentId, CompanyId, MemberId, PositionId};
use serde_json::json;
use service::{
    ApiError, AuditEvent, AuditedTx, Correlation, Created, Data, PathParams, RawBody, Superadmin, changes,
};

use super::rules::{NewAssignment, OrgAssignment, Placed};
use super::store;
use crate::App;
use crate::events::event;
use crate::members::rules::OrgMember;
use crate::members::store::lock_all;
use crate::tuples;
use crate::units::store::share_company;

/// Assigns a position to a member from today and ends the previous holder's term. Changes nothing if the member already
/// holds the position.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<OrgAssignment>, ApiError> {
    let position: PositionId = path.id("id")?;
    let NewAssignment(member) = body.parse()?;
    let mut tx = caller.begin(&app, &id).await?;
    let company = held_position(&mut tx, position).await?;
    let open = store::open_term(tx.conn(), position).await?;
    let held = held_members(&mut tx, company, member, open.as_ref()).await?;
    if let Some(open) = open {
        if open.member_id == member {
            tx.unchanged().await?;
            return Ok(Created(open));
        }
        let ended = end(&mut tx, open).await?;
        let event = ended_event(company, &ended);
        tx.record(&event).await?;
    }
    let begun = store::begin(tx.conn(), company, position, member).await?;
    rewrite_all(&mut tx, company, &held).await?;
    let created = changes(None, &begun)?;
    tx.commit(&event(company, "assignment.created", "assignment", begun.id, created)).await?;
    Ok(Created(begun))
}

/// Ends an open assignment today.
pub(crate) async fn finish(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
) -> Result<Data<OrgAssignment>, ApiError> {
    let assignment: AssignmentId = path.id_or_not_found("id", "assignment")?;
    let mut tx = caller.begin(&app, &id).await?;
    let found = store::find(&mut *tx.conn(), assignment).await?;
    let Placed { assignment, company } = found.ok_or(ApiError::NotFound("assignment".into()))?;
    held_position(&mut tx, assignment.position_id).await?;
    let held = lock_all(tx.conn(), company, &[assignment.member_id]).await?;
    let ended = end(&mut tx, assignment).await?;
    rewrite_all(&mut tx, company, &held).await?;
    tx.commit(&ended_event(company, &ended)).await?;
    Ok(Data(ended))
}

/// Returns the company of a position and locks both rows, in the order that every writer follows.
async fn held_position(tx: &mut AuditedTx, position: PositionId) -> Result<CompanyId, ApiError> {
    let company = store::company_of(tx.conn(), position).await?;
    let company = company.ok_or(ApiError::NotFound("position".into()))?;
    share_company(tx.conn(), company).await?;
    store::hold_position(tx.conn(), position).await?;
    Ok(company)
}

/// Locks and returns the rows of the new holder and of the current one, if any.
///
/// # Errors
/// 404 if the new holder is not an active member of the company.
async fn held_members(
    tx: &mut AuditedTx,
    company: CompanyId,
    member: MemberId,
    open: Option<&OrgAssignment>,
) -> Result<Vec<OrgMember>, ApiError> {
    let mut ids = vec![member];
    ids.extend(open.map(|open| open.member_id));
    let held = lock_all(tx.conn(), company, &ids).await?;
    if held.iter().any(|found| found.id == member && found.is_active) {
        return Ok(held);
    }
    Err(ApiError::NotFound("member".into()))
}

async fn end(tx: &mut AuditedTx, open: OrgAssignment) -> Result<OrgAssignment, ApiError> {
    store::end(tx.conn(), open.id).await?.ok_or_else(|| ApiError::Conflict {
        code: code::ASSIGNMENT_ALREADY_ENDED,
        message: "the assignment has already ended".into(),
        details: json!({ "assignmentId": open.id }),
    })
}

async fn rewrite_all(tx: &mut AuditedTx, company: CompanyId, members: &[OrgMember]) -> Result<(), ApiError> {
    let subjects: Vec<String> = members.iter().filter_map(|member| member.user_id.clone()).collect();
    tuples::store::rewrite(tx.conn(), company, &subjects).await?;
    Ok(())
}

fn ended_event(company: CompanyId, ended: &OrgAssignment) -> AuditEvent {
    AuditEvent {
        company: Some(company),
        action: "assignment.ended",
        subject: format!("assignment:{}", ended.id),
        payload: json!({ "validTo": { "from": null, "to": ended.valid_to } }),
    }
}
