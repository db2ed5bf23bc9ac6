//! Every route of the module, in the order of the module contract.

use axum::Router;
use axum::routing::get;

use crate::{App, tickets};

/// The routes; the probes and the layers are the chassis'.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/api/helpdesk/v1/companies/{companyId}/tickets", get(tickets::http::list))
        .with_state(app)
}
