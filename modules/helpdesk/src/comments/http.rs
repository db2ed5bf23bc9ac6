//! Lists and adds comments.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde_json::json;
use service::idempotency::{self, Done, Key, Once};
use service::{ApiError, CompanyTx, LimitedRead, Permit, RawBody};

use super::rules::{ADDED, Comment, CommentBody, MAX_COMMENTS, Visibility, not_agent, told};
use super::store;
use crate::notices::rules::{Happened, Notice};
use crate::settings::rules::TicketRules;
use crate::tickets::list::{answer, cut_text};
use crate::tickets::rules::{Status, StoredTicket, TicketId, subject, unknown};
use crate::tickets::store as tickets;
use crate::tickets::viewer::Viewer;
use crate::{App, notices};
use service::company_rules::CompanyRules;

pub(crate) async fn list(State(app): State<App>, permit: LimitedRead<Permit>) -> Result<Response, ApiError> {
    let mut viewer = Viewer::of(&app, &permit).await?;
    let ticket = viewer.ticket(permit.path.id("ticketId")?).await?;
    let internal_too = viewer.is_agent().await?;
    let found = store::list(&app.core.pool, &permit, ticket.id, internal_too).await?;
    let (mut found, is_truncated) = cut_text(found, MAX_COMMENTS, |comment| comment.body.len());
    found.reverse();
    Ok(answer(found, is_truncated))
}

pub(crate) async fn add(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Comment>, ApiError> {
    let key = Key::of(&headers)?;
    let body: CommentBody = body.parse()?;
    let id: TicketId = permit.path.id("ticketId")?;
    let ticket = id.to_string();
    let attempt =
        key.map(|key| key.attempt(permit.company, permit.operation.id, &[ticket.as_str()], &json!(body)));
    let may_reopen = admitted(&app, &permit, id, body.visibility).await?;
    let tx = permit.begin(&app.core).await?;
    let answer = idempotency::once(tx, attempt.as_ref(), async |tx| {
        let comment = added(tx, &permit, id, body, may_reopen).await?;
        let event = tx.event(ADDED, subject(id), told(&comment));
        Ok(Done { resource: Some(comment.id.as_uuid()), answer: comment, event })
    })
    .await?;
    app.wake_notices();
    Ok(answer)
}

/// Checks whether the caller may add this comment, even when an idempotency key's stored answer is repeated: a caller
/// who may no longer write a comment does not see it. Returns whether the caller is the reporter and still in time to
/// reopen a resolved ticket.
async fn admitted(
    app: &App,
    permit: &Permit,
    id: TicketId,
    visibility: Visibility,
) -> Result<bool, ApiError> {
    let mut viewer = Viewer::of(app, permit).await?;
    let ticket = viewer.ticket(id).await?;
    if visibility == Visibility::Internal && !viewer.must_be_agent().await? {
        return Err(not_agent());
    }
    Ok(ticket.is_reported_by(viewer.place.as_ref()) && !is_late(app, permit, &ticket).await?)
}

async fn is_late(app: &App, permit: &Permit, found: &StoredTicket) -> Result<bool, ApiError> {
    let Some(resolved_at) = found.resolved_at else { return Ok(false) };
    let rules = TicketRules::find(&app.core.reads, permit).await?;
    Ok(rules.is_late(resolved_at, app.core.clock.now()))
}

/// Adds the comment and, where the reporter's comment reopens a resolved ticket, the status change. An internal comment
/// changes nothing that others could see, including the ticket's time of change.
async fn added(
    tx: &mut CompanyTx,
    permit: &Permit,
    id: TicketId,
    body: CommentBody,
    may_reopen: bool,
) -> Result<Comment, ApiError> {
    let ticket = tickets::lock(tx, permit, id).await?.ok_or_else(unknown)?;
    ticket.check_open()?;
    let comment = store::insert(tx, id, body).await?;
    if comment.visibility == Visibility::Internal {
        return Ok(comment);
    }
    tickets::touch(tx, id).await?;
    let notice = Notice { ticket: id, number: ticket.number, happened: Happened::Commented };
    notices::store::add(tx, permit, &notice).await?;
    let is_answer = may_reopen && ticket.status == Status::Resolved;
    if is_answer && TicketRules::of(tx).await?.reopen_on_reporter_comment {
        reopen(tx, permit, &ticket).await?;
    }
    Ok(comment)
}

async fn reopen(tx: &mut CompanyTx, permit: &Permit, ticket: &StoredTicket) -> Result<(), ApiError> {
    let (from, to) = (ticket.status, Status::Open);
    let moved = tickets::move_on(tx, ticket, to).await?;
    let moved =
        moved.ok_or_else(|| ApiError::internal("a locked ticket was changed by another statement"))?;
    let notice = Notice { ticket: moved.id, number: moved.number, happened: Happened::Moved { from, to } };
    notices::store::add(tx, permit, &notice).await?;
    let told = json!({ "status": { "from": from, "to": to }, "cause": ADDED });
    tx.record("ticket.status_changed", subject(moved.id), told).await
}
