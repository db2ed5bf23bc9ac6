//! Shows the health of a channel, and enables a disabled channel.

use axum::extract::State;
use serde_json::json;
use service::{ApiError, Data, Permit};

use super::rules::Health;
use super::store;
use crate::App;
use crate::channels::http::unknown;
use crate::channels::rules::{ChannelId, subject};

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<Health>, ApiError> {
    let found = store::find(&app.core.pool, &permit, permit.path.id("channelId")?).await?;
    found.map(Data).ok_or_else(unknown)
}

/// Enables a channel. Deliveries that waited for this are made now, all others when they are due.
pub(crate) async fn enable(State(app): State<App>, permit: Permit) -> Result<Data<Health>, ApiError> {
    let id: ChannelId = permit.path.id("channelId")?;
    let mut tx = permit.begin(&app.core).await?;
    if store::enable(&mut tx, id).await?.ok_or_else(unknown)? {
        tx.commit("channel.enabled", subject(id), json!({})).await?;
        app.wake();
    } else {
        tx.unchanged().await?;
    }
    let found = store::find(&app.core.pool, &permit, id).await?;
    found.map(Data).ok_or_else(unknown)
}
