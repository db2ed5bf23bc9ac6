//! The route table of identity. All routes are internal: no public path leads here.

use axum::Router;
use axum::routing::{get, post, put};

use crate::{App, lifecycle, look, provision, users};

/// Every route of identity.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/internal/identity/provision", post(provision::http::provision))
        .route("/internal/identity/users/lookup", post(users::http::lookup))
        .route("/internal/identity/users/resolve", post(users::resolve::resolve))
        .route("/internal/identity/service-accounts/{clientId}", get(users::service_account::one))
        .route("/internal/identity/users/{kcSub}", get(users::http::one))
        .route("/internal/identity/users/{kcSub}/state", get(users::http::state))
        .route("/internal/identity/users/{kcSub}/lifecycle", put(lifecycle::http::change))
        .route("/internal/identity/users/{kcSub}/look", post(look::http::look))
        .with_state(app)
}
