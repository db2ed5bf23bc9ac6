//! The route table of authz: internal routes only. The gateway guards the routes that it proxies; here every route
//! verifies the bearer again or checks a service credential, and only a superadmin can change the platform role.

use axum::routing::{delete, get, post};
use axum::{Extension, Router};

use crate::{App, access, grants, roles, summary};

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/internal/authz/effective-access/can", post(access::http::can))
        .route("/internal/authz/effective-access/batch-can", post(access::http::batch_can))
        .route(
            "/internal/authz/effective-access/summary",
            get(summary::http::summary).layer(Extension(summary::Catalogs::default())),
        )
        .route("/internal/authz/effective-access/objects", get(access::objects::objects))
        .route("/internal/authz/effective-access/explain", get(access::explain::explain))
        .route("/internal/authz/access/v1/evaluation", post(access::authzen::evaluation))
        .route("/internal/authz/access/v1/evaluations", post(access::authzen::evaluations))
        .route("/internal/authz/authzen-configuration", get(access::authzen::metadata))
        .route("/internal/authz/superadmin/{kcSub}", get(access::guards::superadmin))
        .route("/internal/authz/companies/{companyId}/modules/{moduleKey}", get(access::guards::in_use))
        .route("/internal/authz/directory/{companyId}/{kcSub}", get(access::guards::directory))
        .route("/internal/authz/grants", post(grants::http::change))
        .route("/internal/authz/tuples/lookup", post(grants::http::lookup))
        .route("/internal/authz/tuples/revoke", post(grants::revoke::revoke))
        .route("/internal/authz/platform-roles", post(roles::http::grant))
        .route("/internal/authz/platform-roles/{role}/{subjectId}", delete(roles::http::revoke))
        .with_state(app)
}
