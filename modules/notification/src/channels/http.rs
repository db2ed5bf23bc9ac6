//! Lists channels.

use axum::extract::State;
use contract::page::Page;
use service::{ApiError, CompanyCall, Data, Query};

use super::rules::{Channel, without_targets};
use super::store;
use crate::{App, features};

/// Targets are shown to whoever passes a second decision, which is asked only when there is something to show.
pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Data<Page<Channel>>, ApiError> {
    let permit = call.permit(&app.permits, &features::CHANNELS_READ).await?;
    let page = store::list(&app.core.pool, &permit, query.page()?).await?;
    let has_target = page.items.iter().any(|channel| channel.target.is_some());
    if has_target && !call.holds(&app.permits, &features::CHANNELS_MANAGE).await? {
        return Ok(Data(without_targets(page)));
    }
    Ok(Data(page))
}
