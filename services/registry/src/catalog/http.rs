//! `/internal/platform/capabilities` and `/internal/platform/catalog`. They require no bearer: the gateway already
//! does, and any bearer may read them.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use service::{ApiError, Data, PathParams};

use super::rules::Capability;
use crate::App;

/// Returns all modules and apps.
pub(crate) async fn capabilities(State(app): State<App>, asked: HeaderMap) -> Result<Response, ApiError> {
    Ok(app.catalog.get().await?.capabilities.answer(&asked))
}

/// Returns one module or app.
pub(crate) async fn capability(
    State(app): State<App>,
    path: PathParams,
) -> Result<Data<Capability>, ApiError> {
    let published = app.catalog.get().await?;
    let found = published.catalog.capability(path.text("module"));
    found.map(Data).ok_or(ApiError::NotFound("module or app".into()))
}

/// Returns all modules.
pub(crate) async fn catalog(State(app): State<App>, asked: HeaderMap) -> Result<Response, ApiError> {
    Ok(app.catalog.get().await?.entries.answer(&asked))
}
