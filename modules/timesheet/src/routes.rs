//! Every route of the module, in the order of the module contract.

use axum::Router;
use axum::routing::{get, post, put};

use crate::{App, entries, member_approvers, projects, settings, submissions};

/// The routes; the probes and the layers are the chassis'.
pub fn router(app: App) -> Router {
    Router::new()
        .route(
            "/api/timesheet/v1/companies/{companyId}/settings",
            get(settings::http::read).put(settings::http::update),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/projects",
            get(projects::http::list).post(projects::http::create),
        )
        .route("/api/timesheet/v1/companies/{companyId}/projects/{projectId}", put(projects::http::update))
        .route(
            "/api/timesheet/v1/companies/{companyId}/member-approvers",
            get(member_approvers::http::list).put(member_approvers::http::assign),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/time-entries",
            get(entries::http::list).put(entries::http::upsert),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/submissions",
            get(submissions::http::list).post(submissions::http::submit),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/submissions/{submissionId}/approve",
            post(submissions::decide::approve),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/submissions/{submissionId}/revert",
            post(submissions::decide::revert),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/submissions/{submissionId}/reject",
            post(submissions::decide::reject),
        )
        .with_state(app)
}
