//! Takes events of other modules, in the name of the user whose request they come from. No client reaches this route.

use axum::extract::State;
use http::StatusCode;
use serde_json::json;
use service::company::InternalCall;
use service::{ApiError, Data, RawBody};

use super::rules::{EventBody, Posted};
use crate::App;
use crate::messages::publish::{Origin, publish};
use crate::messages::rules::subject;
use crate::messages::store;

type Answer = (StatusCode, Data<Posted>);

pub(crate) async fn post(
    State(app): State<App>,
    call: InternalCall,
    body: RawBody,
) -> Result<Answer, ApiError> {
    let event: EventBody = body.parse()?;
    let permit = app.permits.ask_about(call, event.company).await?;
    let mut tx = permit.begin(&app.core).await?;
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

fn accepted(message_id: Option<crate::messages::rules::MessageId>, deduplicated: bool) -> Answer {
    (StatusCode::ACCEPTED, Data(Posted { message_id, deduplicated: Some(deduplicated) }))
}
