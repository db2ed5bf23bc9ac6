//! Every route of the module, in the order of the module contract.

use axum::Router;
use axum::routing::get;

use crate::{App, channels};

/// The routes; the probes and the layers are the chassis'.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/api/notification/v1/companies/{companyId}/channels", get(channels::http::list))
        .with_state(app)
}
