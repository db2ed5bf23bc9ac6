//! Shows and sets the caller's own subscription.

use axum::extract::State;
use serde_json::json;
use service::refusal::broken;
use service::{ApiError, Body, Data, Permit};

use super::rules::{OwnSubscription, Subscription, SubscriptionBody};
use super::store;
use crate::App;
use crate::channels::http::unknown;
use crate::channels::rules::{ChannelId, Kind};

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<OwnSubscription>, ApiError> {
    let channel: ChannelId = permit.path.id("channelId")?;
    let member = app.member(&permit).await?;
    let (kind, own) = store::find(&app.core.pool, &permit, channel, member).await?.ok_or_else(unknown)?;
    if kind == Kind::Webhook {
        return Err(not_supported());
    }
    Ok(Data(own))
}

fn not_supported() -> ApiError {
    broken("SUBSCRIPTION_NOT_SUPPORTED", "webhooks have no subscriptions", json!({}))
}

pub(crate) async fn set(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<SubscriptionBody>,
) -> Result<Data<Subscription>, ApiError> {
    let channel: ChannelId = permit.path.id("channelId")?;
    let member = app.member(&permit).await?;
    let mut tx = permit.begin(&app.core).await?;
    let kind = store::kind_of(&mut tx, channel).await?.ok_or_else(unknown)?;
    if kind == Kind::Webhook {
        return Err(not_supported());
    }
    let before = store::lock(&mut tx, channel, member).await?;
    if let Some(before) = before.filter(|before| before.email == body.email) {
        tx.unchanged().await?;
        return Ok(Data(before));
    }
    let after = store::save(&mut tx, channel, member, body.email.as_deref()).await?;
    // Addresses of people do not go into the audit log.
    let told = json!({ "memberId": member, "subscribed": after.email.is_some() });
    tx.commit("subscription.set", format!("channel:{channel}"), told).await?;
    Ok(Data(after))
}
