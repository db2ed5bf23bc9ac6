//! Moves a ticket through its statuses. Whether the caller may is checked on the row as read. The move is one
//! conditional update on the status and assignee that the check used, so of two concurrent moves one wins and the other
//! is checked again.

use axum::extract::State;
use serde_json::json;
use service::{ApiError, Body, Data, Permit};

use super::rules::{Standing, Status, StatusBody, StoredTicket, Ticket, TicketId, subject};
use super::store;
use super::viewer::Viewer;
use crate::notices::rules::{Happened, Notice};
use crate::settings::rules::TicketRules;
use crate::{App, notices};
use service::company_rules::CompanyRules;

/// How often a move that lost a race is checked again.
const MAX_ATTEMPTS: usize = 8;

pub(crate) async fn change(
    State(app): State<App>,
    permit: Permit,
    Body(StatusBody(to)): Body<StatusBody>,
) -> Result<Data<Ticket>, ApiError> {
    let mut viewer = Viewer::of(&app, &permit).await?;
    let id: TicketId = permit.path.id("ticketId")?;
    for _ in 0..MAX_ATTEMPTS {
        let found = viewer.ticket(id).await?;
        if found.status == to {
            return viewer.shown(found).await.map(Data);
        }
        judge(&app, &permit, &mut viewer, &found, to).await?;
        if let Some(after) = moved(&app, &permit, &found, to).await? {
            app.wake_notices();
            return viewer.shown(after).await.map(Data);
        }
    }
    Err(ApiError::conflict("the ticket is being changed by others; try again"))
}

async fn judge(
    app: &App,
    permit: &Permit,
    viewer: &mut Viewer<'_>,
    found: &StoredTicket,
    to: Status,
) -> Result<(), ApiError> {
    let mut standing = viewer.standing(found);
    standing.late = is_late(app, permit, standing, found, to).await?;
    if standing.leaves_open(found.status, to) {
        // A move that is not in the table is refused in any case; then the answer affects only the list of allowed
        // moves.
        let refuses = Standing { agent: true, ..standing }.may(found.status, to);
        standing = viewer.judged(standing, refuses).await?;
    }
    standing.judge(found.status, to)
}

/// Whether the caller is the reporter and the time for the reporter to reopen is over.
async fn is_late(
    app: &App,
    permit: &Permit,
    standing: Standing,
    found: &StoredTicket,
    to: Status,
) -> Result<bool, ApiError> {
    let (Some(resolved_at), Status::Open, true) = (found.resolved_at, to, standing.reporter) else {
        return Ok(false);
    };
    let rules = TicketRules::find(&app.core.reads, permit).await?;
    Ok(rules.is_late(resolved_at, app.core.clock.now()))
}

async fn moved(
    app: &App,
    permit: &Permit,
    before: &StoredTicket,
    to: Status,
) -> Result<Option<StoredTicket>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let Some(after) = store::move_on(&mut tx, before, to).await? else {
        tx.unchanged().await?;
        return Ok(None);
    };
    let happened = Happened::Moved { from: before.status, to };
    notices::store::add(&mut tx, permit, &Notice { ticket: after.id, number: after.number, happened })
        .await?;
    let told = json!({ "status": { "from": before.status, "to": to } });
    tx.commit("ticket.status_changed", subject(after.id), told).await?;
    Ok(Some(after))
}
