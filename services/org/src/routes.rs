//! The whole route table of org, in the specification's order. Public paths are the edge's; these are what it rewrites
//! them to, and what modules call.

use axum::Router;
use axum::routing::{MethodRouter, delete, get, post, put};
use service::{ApiError, Caller};

use crate::{App, companies, directory, members, units};

/// The routes that a later version brings; each answers 501 to a verified bearer.
pub const NOT_YET: &[&str] = &[
    "GET /internal/org/admin/companies/{companyId}/positions",
    "POST /internal/org/admin/companies/{companyId}/positions",
    "POST /internal/org/admin/positions/{id}/assignments",
    "POST /internal/org/admin/assignments/{id}/end",
    "GET /internal/org/admin/companies/{companyId}/groups",
    "POST /internal/org/admin/companies/{companyId}/groups",
    "GET /internal/org/admin/groups/{id}/members",
    "POST /internal/org/admin/groups/{id}/members",
    "DELETE /internal/org/admin/groups/{id}/members/{memberId}",
];

/// Every route of org.
pub fn router(app: App) -> Router {
    Router::new().merge(self_scoped()).merge(admin()).merge(not_yet()).with_state(app)
}

fn self_scoped() -> Router<App> {
    Router::new()
        .route("/internal/org/me/companies", get(companies::http::mine))
        .route("/internal/org/companies/{companyId}/members", get(directory::http::members))
        .route(
            "/internal/org/companies/{companyId}/members/by-kcsub/{kcSub}",
            get(directory::http::membership),
        )
        .route(
            "/internal/org/companies/{companyId}/members/by-kcsub/{kcSub}/context",
            get(directory::http::context),
        )
}

fn admin() -> Router<App> {
    Router::new()
        .route("/internal/org/admin/units", post(units::http::create))
        .route("/internal/org/admin/units/{id}", get(units::http::one))
        .route("/internal/org/admin/units/{id}/subtree", get(units::http::subtree))
        .route("/internal/org/admin/members", post(members::http::create).get(members::http::list))
        .route("/internal/org/admin/members/{id}", put(members::http::update))
        .route(
            "/internal/org/admin/members/{id}/link-user",
            post(members::link::link).delete(members::link::unlink),
        )
}

fn not_yet() -> Router<App> {
    NOT_YET.iter().fold(Router::new(), |router, route| match route.split_once(' ') {
        Some((method, path)) => router.route(path, refusing(method)),
        None => router,
    })
}

fn refusing(method: &str) -> MethodRouter<App> {
    match method {
        "GET" => get(later),
        "POST" => post(later),
        _ => delete(later),
    }
}

async fn later(_caller: Caller) -> ApiError {
    ApiError::NotImplemented
}
