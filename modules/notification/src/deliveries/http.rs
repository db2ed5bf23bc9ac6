//! Lists and shows deliveries.

use axum::extract::State;
use contract::page::Page;
use service::{ApiError, Data, LimitedRead, Permit, Query};

use super::list::{self, Filter};
use super::rules::{Delivery, DeliveryShown, State as DeliveryState};
use super::store;
use crate::App;

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Data<Page<Delivery>>, ApiError> {
    let state = query.optional_word("state", DeliveryState::WORDS);
    let (state, channel) = service::query::both(state, query.optional_id("channelId"))?;
    let page = query.page()?;
    Ok(Data(list::list(&app.core.pool, &permit, Filter { state, channel }, page).await?))
}

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<DeliveryShown>, ApiError> {
    let found = store::find(&app.core.pool, &permit, permit.path.id("deliveryId")?).await?;
    let delivery = found.ok_or_else(unknown)?;
    let attempts = store::attempts(&app.core.pool, delivery.id).await?;
    Ok(Data(DeliveryShown { delivery, attempts }))
}

/// 404 for an unknown delivery.
pub(super) fn unknown() -> ApiError {
    ApiError::NotFound("delivery".into())
}
