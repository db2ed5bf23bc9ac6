//! Every route of the module, in the order of the module contract, then those beyond it.

use axum::Router;
use axum::routing::{get, post, put};

use crate::{
    App, entries, member_approvers, overview, projects, reports, settings, submission_entries, submissions,
    whole_week,
};

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
        .route(
            "/api/timesheet/v1/companies/{companyId}/submissions/{submissionId}/entries",
            get(submission_entries::http::list),
        )
        .route(
            "/api/timesheet/v1/companies/{companyId}/submissions/approve-batch",
            post(submissions::batch::approve),
        )
        .route("/api/timesheet/v1/companies/{companyId}/time-entries/week", put(whole_week::http::save))
        .route(
            "/api/timesheet/v1/companies/{companyId}/weeks/{weekStart}/overview",
            get(overview::http::show),
        )
        .route("/api/timesheet/v1/companies/{companyId}/reports/hours", get(reports::http::hours))
        .with_state(app)
}
