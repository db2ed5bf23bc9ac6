//! Accepts events of other modules, either with the bearer of the user whose request caused them, or, from a module's
//! worker, with the services' credential and the subject that it acts for. Clients cannot reach this route.

use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use service::company::InternalCaller;
use service::{ApiError, CompanyTx, Data, RawBody};

use super::rules::{EventBody, Posted};
use crate::App;
use crate::messages::publish::{Origin, publish};
use crate::messages::rules::subject;
use crate::messages::store;

type Answer = (StatusCode, Data<Posted>);

pub(crate) async fn post(
    State(app): State<App>,
    caller: InternalCaller,
    body: RawBody,
) -> Result<Answer, ApiError> {
    let event: EventBody = body.parse()?;
    let mut tx = begin(&app, caller, &event).await?;
    let Some(through) = store::through_key(&mut tx, &event.channel_key).await? else {
        tx.unchanged().await?;
        return Ok((StatusCode::OK, Data(Posted { message_id: None, deduplicated: None })));
    };
    let EventBody { source_module, event_type, dedupe_key, content, .. } = event;
    let origin = Origin { source_module, event_type, dedupe_key };
    let published = publish(&mut tx, &app.outbox, &through, content, Some(&origin)).await?;
    let Some(published) = published else {
        let id = store::of_event(&mut tx, &origin.source_module, &origin.dedupe_key).await?;
        tx.unchanged().await?;
        return Ok(accepted(id, true));
    };
    let id = published.message.id;
    let told = json!({ "channelId": through.id, "deliveries": published.jobs,
        "sourceModule": origin.source_module, "eventType": origin.event_type });
    tx.commit("message.created", subject(id), told).await?;
    app.wake();
    Ok(accepted(Some(id), false))
}

/// Begins the company's transaction once authz has allowed the user or the subject.
async fn begin(app: &App, caller: InternalCaller, event: &EventBody) -> Result<CompanyTx, ApiError> {
    match caller {
        InternalCaller::User(call) => {
            let permit = app.permits.ask_about(*call, event.company).await?;
            permit.begin(&app.core).await
        }
        InternalCaller::Service(call) => {
            let missing = || ApiError::validation_field("subject", "required", "required");
            let subject = event.subject.as_ref().ok_or_else(missing)?;
            let permit = app.permits.ask_for(&call, event.company, subject).await?;
            permit.begin(&app.core).await
        }
    }
}

fn accepted(message_id: Option<crate::messages::rules::MessageId>, deduplicated: bool) -> Answer {
    (StatusCode::ACCEPTED, Data(Posted { message_id, deduplicated: Some(deduplicated) }))
}
