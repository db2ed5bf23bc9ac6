//! Every route of the module.

use axum::Router;
use axum::routing::get;

use crate::{App, documents};

/// The routes; the probes and the layers are the chassis'.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/api/docs/v1/companies/{companyId}/documents", get(documents::http::list))
        .with_state(app)
}
