//! Lists comments and adds one.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde_json::json;
use service::idempotency::{self, Done, Key, Once};
use service::{ApiError, CompanyTx, Permit, RawBody};

use super::rules::{ADDED, Comment, CommentBody, MAX_COMMENTS, Visibility, not_agent, told};
use super::store;
use crate::notices::rules::{Happened, Notice};
use crate::settings::store as settings;
use crate::tickets::list::answer;
use crate::tickets::rules::{Status, StoredTicket, TicketId, not_party, subject, unknown};
use crate::tickets::store as tickets;
use crate::tickets::viewer::Viewer;
use crate::{App, notices};

pub(crate) async fn list(State(app): State<App>, permit: Permit) -> Result<Response, ApiError> {
    let mut viewer = Viewer::of(&app, &permit).await?;
    let ticket = viewer.ticket(permit.path.id("ticketId")?).await?;
    let internal_too = viewer.is_agent().await?;
    let mut found = store::list(&app.core.pool, &permit, ticket.id, internal_too).await?;
    let is_truncated = found.len() > MAX_COMMENTS;
    if is_truncated {
        found.remove(0);
    }
    Ok(answer(found, is_truncated))
}

/// What the row rule of an addition found, before it is known whether the addition was made before.
struct Admission {
    may_view: bool,
    may_note: bool,
    /// The reporter says something, and in time to reopen what is resolved.
    may_reopen: bool,
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
    let admission = admission(&app, &permit, id, &body, attempt.is_some()).await?;
    let tx = permit.begin(&app.core).await?;
    let answer = idempotency::once(tx, attempt.as_ref(), async |tx| {
        let admission = admission.ok_or_else(unknown)?;
        if !admission.may_view {
            return Err(not_party());
        }
        if body.visibility == Visibility::Internal && !admission.may_note {
            return Err(not_agent());
        }
        let comment = added(tx, &permit, id, body, &admission).await?;
        let event = tx.event(ADDED, subject(id), told(&comment));
        Ok(Done { resource: Some(comment.id.as_uuid()), answer: comment, event })
    })
    .await?;
    app.wake_notices();
    Ok(answer)
}

/// `None`: there is no such ticket. Under a key the row rule refuses only what was not done before, so a no refuses
/// nothing yet.
async fn admission(
    app: &App,
    permit: &Permit,
    id: TicketId,
    body: &CommentBody,
    has_key: bool,
) -> Result<Option<Admission>, ApiError> {
    let mut viewer = Viewer::of(app, permit).await?;
    let Some(found) = tickets::find(&app.core.pool, permit, id).await? else { return Ok(None) };
    let may_view = if has_key {
        viewer.may_view(&found).await?
    } else {
        viewer.admit(&found).await?;
        true
    };
    let may_note = body.visibility == Visibility::Internal && viewer.is_agent().await?;
    let is_reporter = found.is_reported_by(viewer.place.as_ref());
    let may_reopen = is_reporter && !is_late(app, permit, &found).await?;
    Ok(Some(Admission { may_view, may_note, may_reopen }))
}

async fn is_late(app: &App, permit: &Permit, found: &StoredTicket) -> Result<bool, ApiError> {
    let Some(resolved_at) = found.resolved_at else { return Ok(false) };
    let rules = settings::find(&app.core.pool, permit).await?;
    Ok(rules.is_late(resolved_at, app.core.clock.now()))
}

/// The comment, and with it the ticket's new state where the reporter's word on a resolved ticket reopens it. An internal
/// comment changes nothing that others could see, the ticket's time of change included.
async fn added(
    tx: &mut CompanyTx,
    permit: &Permit,
    id: TicketId,
    body: CommentBody,
    admission: &Admission,
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
    let is_answer = admission.may_reopen && ticket.status == Status::Resolved;
    if is_answer && settings::of(tx).await?.reopen_on_reporter_comment {
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
