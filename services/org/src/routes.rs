//! The route table of org, in the specification's order: the routes to which the gateway rewrites public paths, and the
//! routes that modules and operators call.

use axum::Router;
use axum::routing::{delete, get, post, put};

use crate::{
    App, assignments, companies, directory, forgetting, groups, lookup, members, operators, positions, units,
};

/// Builds the router with every route of org.
pub fn router(app: App) -> Router {
    Router::new()
        .merge(self_scoped())
        .merge(for_modules())
        .merge(for_operators())
        .merge(units_and_members())
        .merge(positions_and_groups())
        .with_state(app)
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

fn for_modules() -> Router<App> {
    Router::new()
        .route("/internal/org/companies/{companyId}/lookup", post(lookup::http::lookup))
        .route(
            "/internal/org/companies/{companyId}/assignables/positions",
            get(lookup::http::assignable_positions),
        )
        .route("/internal/org/companies/{companyId}/assignables/groups", get(lookup::http::assignable_groups))
        .route("/internal/org/former-members", get(forgetting::http::former_members))
}

fn for_operators() -> Router<App> {
    Router::new()
        .route("/internal/org/companies/{companyId}/admins/{kcSub}", put(operators::http::set_admin))
        .route("/internal/org/units/{id}/activity", put(operators::http::set_activity))
}

fn units_and_members() -> Router<App> {
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

fn positions_and_groups() -> Router<App> {
    Router::new()
        .route(
            "/internal/org/admin/companies/{companyId}/positions",
            get(positions::http::list).post(positions::http::create),
        )
        .route("/internal/org/admin/positions/{id}/assignments", post(assignments::http::create))
        .route("/internal/org/admin/assignments/{id}/end", post(assignments::http::finish))
        .route(
            "/internal/org/admin/companies/{companyId}/groups",
            get(groups::http::list).post(groups::http::create),
        )
        .route(
            "/internal/org/admin/groups/{id}/members",
            get(groups::members::list).post(groups::members::add),
        )
        .route("/internal/org/admin/groups/{id}/members/{memberId}", delete(groups::members::remove))
}
