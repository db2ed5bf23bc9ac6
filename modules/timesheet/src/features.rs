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
