//! `/internal/platform/capabilities` and `/internal/platform/catalog`. They need no bearer here: the edge asks for one,
//! and there is nothing in them that a bearer may not see.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use service::{ApiError, Data, PathParams};

use super::rules::Capability;
use crate::App;

/// Modules and apps.
pub(crate) async fn capabilities(State(app): State<App>, asked: HeaderMap) -> Result<Response, ApiError> {
    Ok(app.catalog.get().await?.capabilities.answer(&asked))
}

/// One module or app.
pub(crate) async fn capability(
    State(app): State<App>,
    path: PathParams,
) -> Result<Data<Capability>, ApiError> {
    let published = app.catalog.get().await?;
    let found = published.catalog.capability(path.text("module"));
    found.map(Data).ok_or(ApiError::NotFound("module or app".into()))
}

/// Modules only.
pub(crate) async fn catalog(State(app): State<App>, asked: HeaderMap) -> Result<Response, ApiError> {
    Ok(app.catalog.get().await?.entries.answer(&asked))
}
