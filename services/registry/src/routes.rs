//! The route table of registry, in the specification's order: the routes to which the gateway rewrites public paths,
//! and the stream that gateways follow.

use axum::Router;
use axum::routing::{get, post};

use crate::{App, apps, catalog, enablement, snapshot};

/// Builds the router with every route of registry.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/internal/platform/capabilities", get(catalog::http::capabilities))
        .route("/internal/platform/capabilities/{module}", get(catalog::http::capability))
        .route("/internal/platform/catalog", get(catalog::http::catalog))
        .route("/internal/platform/modules/{key}/enable", post(enablement::http::enable))
        .route("/internal/platform/modules/{key}/disable", post(enablement::http::disable))
        .route("/internal/platform/apps", post(apps::http::register))
        .route("/internal/platform/snapshot", get(snapshot::http::follow))
        .with_state(app)
}
