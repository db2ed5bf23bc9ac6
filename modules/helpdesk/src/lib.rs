//! helpdesk: tickets of a company's members, who can be assigned to them, and who administers and works on them.
//! `operations.rs` is the table of operations. A request takes the steps that `service` lays down for every module:
//! permit, body, `<resource>/http.rs`, `rules.rs` (pure), `store.rs` (SQL). Every statement filters by the permit's
//! company, so another company's id is unknown.
//!
//! ```text
//! tickets/   viewer.rs: the caller's relation to a ticket; move_status.rs, assign.rs: check the row, then update it
//! bindings/  rows that mirror tuples on the company's module; guard.rs keeps the last administrator
//! notices/   written in the transaction of the change -> queue -> notification, outside the request
//! ```

mod app;
pub mod assignables;
pub mod auto_close;
pub mod bindings;
pub mod comments;
pub mod config;
pub mod former_members;
pub mod notices;
pub mod operations;
pub mod settings;
pub mod tickets;
pub mod tiers;

pub use app::App;
pub use operations::operations;

service::declare_module! {
    key: "helpdesk", port: 8180, operations: operations, settings: config::Own, state: app::start
}
