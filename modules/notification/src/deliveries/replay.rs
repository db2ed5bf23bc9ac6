//! Replays dead deliveries: each becomes a new one.

use axum::extract::State;
use serde_json::{Value, json};
use service::refusal::conflict;
use service::{ApiError, Body, Created, Data, Permit};

use super::http::unknown;
use super::rules::{Delivery, MAX_REPLAYED, ReplayBody, Replayed};
use super::store;
use crate::App;
use crate::channels;
use crate::channels::rules::subject;
use crate::delivery::DeliveryId;

pub(crate) async fn one(State(app): State<App>, permit: Permit) -> Result<Created<Delivery>, ApiError> {
    let id: DeliveryId = permit.path.id("deliveryId")?;
    let mut tx = permit.begin(&app.core).await?;
    let channel = store::channel_of(&mut tx, id).await?.ok_or_else(unknown)?;
    let (is_deleted, is_disabled) = store::channel(&mut tx, channel).await?.ok_or_else(unknown)?;
    let found = store::standing(&mut tx, id).await?.ok_or_else(unknown)?;
    if found.state != "dead" {
        let details = json!({ "state": found.state });
        return Err(conflict("DELIVERY_NOT_DEAD", "only a dead delivery can be replayed", details));
    }
    if let Some(replay) = found.replay {
        let details = json!({ "replayId": replay });
        return Err(conflict("DELIVERY_REPLAYED", "the delivery was already replayed", details));
    }
    check_channel(is_deleted, is_disabled)?;
    let made = store::replay(&mut tx, &app.outbox, id).await?;
    store::keep_addresses(&mut tx, channel).await?;
    let told = json!({ "replayOf": id, "channelId": made.channel_id });
    tx.commit("delivery.replayed", format!("delivery:{}", made.id), told).await?;
    app.wake();
    Ok(Created(made))
}

pub(crate) async fn many(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<ReplayBody>,
) -> Result<Data<Replayed>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let found = store::channel(&mut tx, body.channel).await?;
    let (is_deleted, is_disabled) = found.ok_or_else(channels::http::unknown)?;
    check_channel(is_deleted, is_disabled)?;
    let replayed = store::replay_many(&mut tx, &app.outbox, &body).await?;
    if replayed == 0 {
        tx.unchanged().await?;
    } else {
        store::keep_addresses(&mut tx, body.channel).await?;
        tx.commit("deliveries.replayed", subject(body.channel), json!({ "deliveries": replayed })).await?;
        app.wake();
    }
    let has_more = i64::try_from(replayed).is_ok_and(|replayed| replayed >= MAX_REPLAYED);
    Ok(Data(Replayed { replayed, has_more }))
}

/// Refuses a channel that is deleted or disabled, to which nothing is delivered.
fn check_channel(is_deleted: bool, is_disabled: bool) -> Result<(), ApiError> {
    if is_deleted {
        return Err(conflict("CHANNEL_DELETED", "the channel is deleted", Value::Null));
    }
    if is_disabled {
        return Err(conflict("CHANNEL_DISABLED", "the channel is disabled; enable it first", Value::Null));
    }
    Ok(())
}
