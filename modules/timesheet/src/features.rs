//! The decision that each operation asks for: a feature of `authz.fragment.json` and its relation on the company's
//! module. A platform operator may administer a company's settings and projects without being its member.

use service::Feature;

/// Read the rules of the company.
pub const SETTINGS_READ: Feature =
    Feature { key: "timesheet.settings.read", relation: "member", operator: true };
/// Change the rules of the company.
pub const SETTINGS_UPDATE: Feature =
    Feature { key: "timesheet.settings.update", relation: "admin", operator: true };
/// Read projects.
pub const PROJECTS_READ: Feature =
    Feature { key: "timesheet.projects.read", relation: "member", operator: true };
/// Create and change projects.
pub const PROJECTS_MANAGE: Feature =
    Feature { key: "timesheet.projects.manage", relation: "editor", operator: true };
/// Read who approves whose weeks.
pub const APPROVERS_READ: Feature =
    Feature { key: "timesheet.approvers.read", relation: "admin", operator: true };
/// Assign approvers.
pub const APPROVERS_MANAGE: Feature =
    Feature { key: "timesheet.approvers.manage", relation: "admin", operator: true };
/// Read one's own hours.
pub const ENTRIES_READ: Feature =
    Feature { key: "timesheet.entries.read", relation: "submitter", operator: false };
/// Record hours.
pub const ENTRIES_WRITE: Feature =
    Feature { key: "timesheet.entries.write", relation: "submitter", operator: false };
/// Read one's own submissions and those that one is to decide.
pub const SUBMISSIONS_READ: Feature =
    Feature { key: "timesheet.submissions.read", relation: "member", operator: false };
/// Read every submission of the company.
pub const SUBMISSIONS_READ_ALL: Feature =
    Feature { key: "timesheet.submissions.read_all", relation: "viewer", operator: true };
/// Read what a submission held; whose, the row says.
pub const HELD_READ: Feature =
    Feature { key: "timesheet.submissions.read_entries", relation: "member", operator: true };
/// Submit one's own week.
pub const SUBMIT: Feature =
    Feature { key: "timesheet.submissions.submit", relation: "submitter", operator: false };
/// The second decision: decide weeks that were assigned to somebody else or to nobody.
pub const DECIDE_ANY: Feature =
    Feature { key: "timesheet.submissions.decide_any", relation: "approver", operator: true };
/// Approve or reject; whose week, the row says.
pub const DECIDE: Feature =
    Feature { key: "timesheet.submissions.decide", relation: "member", operator: true };
/// Revert; whose week, the row says.
pub const REVERT: Feature =
    Feature { key: "timesheet.submissions.revert", relation: "member", operator: true };
/// Read a week of every member.
pub const WEEKS_READ: Feature = Feature { key: "timesheet.weeks.read", relation: "viewer", operator: true };
/// Read sums of everybody's hours.
pub const REPORTS_READ: Feature =
    Feature { key: "timesheet.reports.read", relation: "viewer", operator: true };
