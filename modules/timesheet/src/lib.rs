//! timesheet: the members of a company record their weeks, and approvers decide them. `operations.rs` is the table of
//! operations; a request's way is `service`'s: permit, body, `<resource>/http.rs`, `rules.rs` (pure), `store.rs` (SQL).
//!
//! Every statement names the company of the permit, so another company's id is an unknown one. Whoever writes hours or
//! submits takes the lock of the member's week first (`weeks/`), so what was approved cannot change.

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
