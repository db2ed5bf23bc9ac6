//! Assigns a ticket to a member, a position or a group, or removes the assignment. The status does not change. When the
//! holder of a position or the members of a group change later, the ticket needs no write.

use axum::extract::State;
use contract::Principal;
use contract::fields::{Fields, FromBody};
use contract::principal::Named;
use serde_json::{Value, json};
use service::clients::org::FoundPrincipal;
use service::refusal::broken;
use service::{ApiError, Data, Permit, RawBody};

use super::rules::{StoredTicket, Ticket, TicketId, closed, subject, unknown};
use super::store;
use super::viewer::Viewer;
use crate::notices::rules::{Happened, Notice};
use crate::{App, notices};

/// The body of an assignment.
struct AssigneeBody(Named);

impl FromBody for AssigneeBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let member = fields.optional_uuid("assigneeMemberId");
        let position = fields.optional_uuid("assigneePositionId");
        let group = fields.optional_uuid("assigneeGroupId");
        Some(Self(Named::of(member?, position?, group?)))
    }
}

pub(crate) async fn assign(
    State(app): State<App>,
    permit: Permit,
    body: RawBody,
) -> Result<Data<Ticket>, ApiError> {
    // No body counts as an empty one.
    let AssigneeBody(named) = if body.is_empty() { AssigneeBody(Named::None) } else { body.parse()? };
    let viewer = Viewer::of(&app, &permit).await?.into_agent();
    let id: TicketId = permit.path.id("ticketId")?;
    let found = store::find(&app.core.pool, &permit, id).await?.ok_or_else(unknown)?;
    found.check_open()?;
    let to = match named {
        Named::None => None,
        Named::One(principal) => Some(known(&app, &permit, principal).await?),
        Named::Many => {
            return Err(broken("ASSIGNEE_AMBIGUOUS", "at most one assignee may be given", json!({})));
        }
    };
    let after = assigned(&app, &permit, id, to).await?;
    app.wake_notices();
    viewer.shown(after).await.map(Data)
}

/// Finds an active member, a position or an active group of the company.
async fn known(app: &App, permit: &Permit, principal: Principal) -> Result<FoundPrincipal, ApiError> {
    let found = app.org.resolve(permit, principal).await?;
    found.ok_or_else(|| {
        let details = json!({ "kind": principal.kind() });
        broken("ASSIGNEE_UNKNOWN", "the company has no such active assignee", details)
    })
}

/// Assigns the ticket and returns it; an assignment that changes nothing writes nothing.
async fn assigned(
    app: &App,
    permit: &Permit,
    id: TicketId,
    to: Option<FoundPrincipal>,
) -> Result<StoredTicket, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let before = store::lock(&mut tx, permit, id).await?.ok_or_else(unknown)?;
    if before.status == super::rules::Status::Closed {
        return Err(closed());
    }
    let assignee = to.as_ref().map(|to| to.principal);
    if before.assignee == assignee {
        tx.unchanged().await?;
        return Ok(before);
    }
    let (action, happened) = match assignee {
        Some(_) => ("ticket.assigned", Happened::Assigned),
        None => ("ticket.unassigned", Happened::Unassigned),
    };
    let told = json!({ "assignee": { "from": told(before.assignee), "to": told(assignee) } });
    let after = store::assign(&mut tx, before, to).await?;
    let notice = Notice { ticket: id, number: after.number, happened };
    notices::store::add(&mut tx, permit, &notice).await?;
    tx.commit(action, subject(id), told).await?;
    Ok(after)
}

/// A principal in the form that audit rows use.
fn told(principal: Option<Principal>) -> Value {
    principal.map_or(Value::Null, |principal| json!(principal))
}
