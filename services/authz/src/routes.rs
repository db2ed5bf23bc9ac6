//! The whole route table of authz, internal routes only. The edge guards those it proxies; here every route but the
//! superadmin look-up verifies the bearer again.

use axum::Router;
use axum::routing::{delete, get, post};

use crate::{App, access, grants, roles, summary};

/// Routes that are here and answer 501 until a later version brings them.
pub const NOT_YET: &[&str] = &[];

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/internal/authz/effective-access/can", post(access::http::can))
        .route("/internal/authz/effective-access/batch-can", post(access::http::batch_can))
        .route("/internal/authz/effective-access/summary", get(summary::http::summary))
        .route("/internal/authz/superadmin/{kcSub}", get(access::http::superadmin))
        .route("/internal/authz/grants", post(grants::http::change))
        .route("/internal/authz/platform-roles", post(roles::http::grant))
        .route("/internal/authz/platform-roles/{role}/{subjectId}", delete(roles::http::revoke))
        .with_state(app)
}
