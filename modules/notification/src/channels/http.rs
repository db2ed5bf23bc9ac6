//! Lists, creates, shows and deletes channels.

use axum::extract::State;
use contract::page::Page;
use serde_json::json;
use service::{ApiError, Body, Created, Data, Permit, Query};

use super::rules::{Channel, ChannelBody, ChannelId, Kind, without_targets};
use super::store;
use crate::backlog::{self, Change};
use crate::{App, operations, secrets};

/// Lists channels. Targets are shown only to callers who pass a second decision, which is asked only if the page has a
/// target.
pub(crate) async fn list(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Page<Channel>>, ApiError> {
    let page = store::list(&app.core.pool, &permit, query.page()?).await?;
    let has_target = page.items.iter().any(|channel| channel.target.is_some());
    if has_target && !may_manage(&app, &permit).await? {
        return Ok(Data(without_targets(page)));
    }
    Ok(Data(page))
}

async fn may_manage(app: &App, permit: &Permit) -> Result<bool, ApiError> {
    app.permits.probe(permit, &operations::CHANNELS_MANAGE).await
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<ChannelBody>,
) -> Result<Created<Channel>, ApiError> {
    body.check_target(&app.outbound)?;
    let id = ChannelId::mint();
    let mut tx = permit.begin(&app.core).await?;
    let channel = store::insert(&mut tx, id, body).await?;
    if channel.kind == Kind::Webhook {
        secrets::store::insert(&mut tx, id, &app.sealer().seal_new(permit.company, id)?).await?;
    }
    let told = json!({ "key": channel.key, "label": channel.label, "kind": channel.kind });
    tx.commit("channel.created", channel.subject(), told).await?;
    Ok(Created(channel))
}

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<Channel>, ApiError> {
    let found = store::find(&app.core.pool, &permit, permit.path.id("channelId")?).await?;
    let channel = found.ok_or_else(unknown)?;
    if channel.target.is_some() && !may_manage(&app, &permit).await? {
        return Ok(Data(channel.without_target()));
    }
    Ok(Data(channel))
}

/// Deletes a channel. Pending deliveries through it are given up, those beyond the first thousand soon after the response;
/// those in progress are finished.
pub(crate) async fn delete(State(app): State<App>, permit: Permit) -> Result<Data<Channel>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let channel = store::delete(&mut tx, permit.path.id("channelId")?).await?.ok_or_else(unknown)?;
    let given_up = backlog::begin(&mut tx, Change::GiveUp(channel.id)).await?;
    let told = json!({ "key": channel.key, "deliveriesGivenUp": given_up });
    tx.commit("channel.deleted", channel.subject(), told).await?;
    Ok(Data(channel))
}

/// 404 for an unknown channel.
pub(crate) fn unknown() -> ApiError {
    ApiError::NotFound("channel".into())
}
