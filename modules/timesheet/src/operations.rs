//! Every operation of the module with the decision that it asks, in the order of the module contract, then those beyond it.
//! A platform operator may administer a company's settings and projects without being its member.

use service::{Feature, Operation as Op, Operations, company_rules};

use crate::settings::rules::TimeRules;
use crate::{
    App, KEY, entries, member_approvers, overview, projects, reports, submission_entries, submissions,
    whole_week,
};

const SETTINGS_READ: Feature = Feature::of_module("timesheet.settings.read", "member").or_operator();
const SETTINGS_UPDATE: Feature = Feature::of_module("timesheet.settings.update", "admin").or_operator();
const PROJECTS_READ: Feature = Feature::of_module("timesheet.projects.read", "member").or_operator();
const PROJECTS_MANAGE: Feature = Feature::of_module("timesheet.projects.manage", "editor").or_operator();
const APPROVERS_READ: Feature = Feature::of_module("timesheet.approvers.read", "admin").or_operator();
const APPROVERS_MANAGE: Feature = Feature::of_module("timesheet.approvers.manage", "admin").or_operator();
const ENTRIES_READ: Feature = Feature::of_module("timesheet.entries.read", "submitter");
const ENTRIES_WRITE: Feature = Feature::of_module("timesheet.entries.write", "submitter");
/// One's own submissions and those that one is to decide.
const SUBMISSIONS_READ: Feature = Feature::of_module("timesheet.submissions.read", "member");
/// Every submission of the company.
pub const SUBMISSIONS_READ_ALL: Feature =
    Feature::of_module("timesheet.submissions.read_all", "viewer").or_operator();
/// What a submission held; whose, the row says.
const HELD_READ: Feature = Feature::of_module("timesheet.submissions.read_entries", "member").or_operator();
const SUBMIT: Feature = Feature::of_module("timesheet.submissions.submit", "submitter");
/// The second decision: decide weeks that were assigned to somebody else or to nobody.
pub const DECIDE_ANY: Feature =
    Feature::of_module("timesheet.submissions.decide_any", "approver").or_operator();
/// Approve or reject; whose week, the row says.
const DECIDE: Feature = Feature::of_module("timesheet.submissions.decide", "member").or_operator();
/// Revert; whose week, the row says.
const REVERT: Feature = Feature::of_module("timesheet.submissions.revert", "member").or_operator();
const WEEKS_READ: Feature = Feature::of_module("timesheet.weeks.read", "viewer").or_operator();
const REPORTS_READ: Feature = Feature::of_module("timesheet.reports.read", "viewer").or_operator();

/// The decisions that operations ask beside their own.
pub const SECOND: &[Feature] = &[SUBMISSIONS_READ_ALL, DECIDE_ANY];

/// The table.
pub fn operations() -> Operations<App> {
    let list_submissions = Op::get("/submissions", "listSubmissions", SUBMISSIONS_READ).with_view(
        "view",
        &["all"],
        SUBMISSIONS_READ_ALL,
    );
    Operations::of(KEY)
        .bind(Op::get("/settings", "getSettings", SETTINGS_READ), company_rules::read::<TimeRules>)
        .bind(Op::put("/settings", "updateSettings", SETTINGS_UPDATE), company_rules::update::<TimeRules>)
        .bind(Op::get("/projects", "listProjects", PROJECTS_READ), projects::http::list)
        .bind(Op::post("/projects", "createProject", PROJECTS_MANAGE), projects::http::create)
        .bind(Op::put("/projects/{projectId}", "updateProject", PROJECTS_MANAGE), projects::http::update)
        .bind(
            Op::get("/member-approvers", "listMemberApprovers", APPROVERS_READ),
            member_approvers::http::list,
        )
        .bind(
            Op::put("/member-approvers", "assignMemberApprover", APPROVERS_MANAGE),
            member_approvers::http::assign,
        )
        .bind(Op::get("/time-entries", "listWeekEntries", ENTRIES_READ), entries::http::list)
        .bind(Op::put("/time-entries", "upsertTimeEntry", ENTRIES_WRITE), entries::http::upsert)
        .bind(list_submissions, submissions::http::list)
        .bind(Op::post("/submissions", "submitWeek", SUBMIT).idempotent(), submissions::http::submit)
        .bind(
            Op::post("/submissions/{submissionId}/approve", "approveSubmission", DECIDE),
            submissions::decide::approve,
        )
        .bind(
            Op::post("/submissions/{submissionId}/revert", "revertSubmission", REVERT),
            submissions::decide::revert,
        )
        .bind(
            Op::post("/submissions/{submissionId}/reject", "rejectSubmission", DECIDE),
            submissions::decide::reject,
        )
        .bind(
            Op::get("/submissions/{submissionId}/entries", "listSubmissionEntries", HELD_READ),
            submission_entries::http::list,
        )
        .bind(
            Op::post("/submissions/approve-batch", "approveSubmissions", DECIDE),
            submissions::batch::approve,
        )
        .bind(Op::put("/time-entries/week", "saveWeek", ENTRIES_WRITE), whole_week::http::save)
        .bind(Op::get("/weeks/{weekStart}/overview", "getWeekOverview", WEEKS_READ), overview::http::show)
        .bind(Op::get("/reports/hours", "reportHours", REPORTS_READ), reports::http::hours)
}
