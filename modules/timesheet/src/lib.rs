//! timesheet: the members of a company record their weeks, and approvers decide them. `operations.rs` is the table of
//! operations. A request takes the steps that `service` lays down for every module: permit, body, `<resource>/http.rs`,
//! `rules.rs` (pure), `store.rs` (SQL).
//!
//! Every statement filters by the permit's company, so another company's id is unknown. Every write of hours or of a
//! submission first takes the lock of the member's week (`weeks/`), so approved hours cannot change.

pub mod entries;
pub mod member_approvers;
pub mod operations;
pub mod overview;
pub mod projects;
pub mod reports;
pub mod settings;
pub mod submission_entries;
pub mod submissions;
pub mod weeks;
pub mod whole_week;

pub use operations::operations;
pub use service::module::Parts as App;

service::declare_module! { key: "timesheet", port: 8160, operations: operations }
