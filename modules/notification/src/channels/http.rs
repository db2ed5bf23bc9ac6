//! Lists channels.

use axum::extract::State;
use contract::page::Page;
use service::{ApiError, Data, Permit, Query};

use super::rules::{Channel, without_targets};
use super::store;
use crate::{App, operations};

/// Targets are shown to whoever passes a second decision, which is asked only when there is something to show.
pub(crate) async fn list(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Page<Channel>>, ApiError> {
    let page = store::list(&app.core.pool, &permit, query.page()?).await?;
    let has_target = page.items.iter().any(|channel| channel.target.is_some());
    if has_target && !app.permits.probe(&permit, &operations::CHANNELS_MANAGE).await? {
        return Ok(Data(without_targets(page)));
    }
    Ok(Data(page))
}
