//! Opens a ticket; shows a ticket and its history.

use axum::extract::State;
use http::HeaderMap;
use serde_json::json;
use service::idempotency::{self, Done, Key, Once};
use service::{ApiError, Data, HistoryEntry, LimitedRead, Permit, RawBody};

use super::rules::{Ticket, TicketBody, subject};
use super::store;
use super::viewer::Viewer;
use crate::comments::rules::internal_notes;
use crate::notices::rules::{Happened, Notice};
use crate::{App, notices};

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Ticket>, ApiError> {
    let key = Key::of(&headers)?;
    let body: TicketBody = body.parse()?;
    let viewer = Viewer::member(&app, &permit).await?;
    let Some(place) = &viewer.place else { return Err(ApiError::internal("a member without a row")) };
    let attempt = key.map(|key| key.attempt(permit.company, permit.operation.id, &[], &json!(body)));
    let tier = crate::tiers::http::highest(&app, &permit, None).await?;
    let tx = permit.begin(&app.core).await?;
    let answer = idempotency::once(tx, attempt.as_ref(), async |tx| {
        let made = store::insert(tx, place.member, &permit.subject, body).await?;
        let notice = Notice { ticket: made.id, number: made.number, happened: Happened::Opened };
        notices::store::add(tx, &permit, &notice).await?;
        let told = json!({ "number": made.number, "priority": made.priority });
        let event = tx.event("ticket.created", subject(made.id), told);
        let resource = Some(made.id.as_uuid());
        let answer = made.seen_by(viewer.place.as_ref(), tier, &super::names::Names::default());
        Ok(Done { answer, resource, event })
    })
    .await?;
    app.wake_notices();
    Ok(answer)
}

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<Ticket>, ApiError> {
    let mut viewer = Viewer::of(&app, &permit).await?;
    let ticket = viewer.ticket(permit.path.id("ticketId")?).await?;
    viewer.shown(ticket).await.map(Data)
}

/// Shows the history of a ticket; only those who work on tickets see entries of internal comments.
pub(crate) async fn history(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
) -> Result<Data<Vec<HistoryEntry>>, ApiError> {
    let mut viewer = Viewer::of(&app, &permit).await?;
    let ticket = viewer.ticket(permit.path.id("ticketId")?).await?;
    let hidden = if viewer.is_agent().await? { Vec::new() } else { vec![internal_notes()] };
    Ok(Data(permit.history_without(&app.core, &subject(ticket.id), &hidden).await?))
}
