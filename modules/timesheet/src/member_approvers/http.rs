//! Lists and assigns approvers.

use axum::extract::State;
use contract::page::Page;
use serde_json::json;
use service::{ApiError, AuditEvent, CompanyCall, Data, Permit, Query, RawBody};

use super::rules::{Assignment, Wish};
use super::store::{self, Repointed};
use crate::{App, features};

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Data<Page<Assignment>>, ApiError> {
    let permit = call.permit(&app.permits, &features::APPROVERS_READ).await?;
    let page = query.page()?;
    Ok(Data(store::list(&app.core.pool, &permit, page).await?))
}

pub(crate) async fn assign(
    State(app): State<App>,
    call: CompanyCall,
    body: RawBody,
) -> Result<Data<Assignment>, ApiError> {
    let permit = call.permit(&app.permits, &features::APPROVERS_MANAGE).await?;
    let wish = body.parse::<Wish>()?.of_two()?;
    let found = app.org.lookup(permit.company, &wish.wanted(), &permit.correlation).await?;
    wish.check(&found)?;
    let mut tx = app.core.begin(&permit.subject, &permit.correlation).await?;
    store::lock(&mut tx, &permit, wish.member).await?;
    let before = store::find(&mut tx, &permit, wish.member).await?;
    if let Some(same) = before.filter(|before| before.approver_member_id == wish.approver) {
        tx.unchanged().await?;
        return Ok(Data(same));
    }
    let after = store::save(&mut tx, &permit, wish).await?;
    for moved in store::repoint(&mut tx, &permit, wish).await? {
        tx.record(&reassigned(&permit, moved, wish)).await?;
    }
    tx.commit(&assigned(&permit, before, &after)).await?;
    Ok(Data(after))
}

fn assigned(permit: &Permit, before: Option<Assignment>, after: &Assignment) -> AuditEvent {
    let from = before.map(|before| before.approver_member_id);
    AuditEvent {
        company: Some(permit.company),
        action: "approver.assigned",
        subject: format!("member:{}", after.member_id),
        payload: json!({ "approverMemberId": { "from": from, "to": after.approver_member_id } }),
    }
}

fn reassigned(permit: &Permit, moved: Repointed, wish: Wish) -> AuditEvent {
    AuditEvent {
        company: Some(permit.company),
        action: "submission.reassigned",
        subject: format!("submission:{}", moved.submission),
        payload: json!({ "assignedApproverMemberId": { "from": moved.from, "to": wish.approver } }),
    }
}
