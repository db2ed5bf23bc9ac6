//! `/internal/platform/capabilities` and `/internal/platform/catalog`. They need no bearer here: the edge asks for one,
//! and there is nothing in them that a bearer may not see.

use axum::extract::State;
use service::{ApiError, Data, PathParams};

use super::rules::{Capability, CatalogEntry};
use super::store;
use crate::App;

/// Modules and apps.
pub(crate) async fn capabilities(State(app): State<App>) -> Result<Data<Vec<Capability>>, ApiError> {
    Ok(Data(store::load(&app.core.pool).await?.capabilities()))
}

/// One module or app.
pub(crate) async fn capability(
    State(app): State<App>,
    path: PathParams,
) -> Result<Data<Capability>, ApiError> {
    let catalog = store::load(&app.core.pool).await?;
    catalog.capability(path.text("module")).map(Data).ok_or(ApiError::NotFound("module or app".into()))
}

/// Modules only.
pub(crate) async fn catalog(State(app): State<App>) -> Result<Data<Vec<CatalogEntry>>, ApiError> {
    Ok(Data(store::load(&app.core.pool).await?.entries()))
}
