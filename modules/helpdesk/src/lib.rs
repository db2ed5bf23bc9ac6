//! helpdesk: tickets of a company's members, assigned to a member, a position or a group, and who works on them.
//! `operations.rs` is the table of operations; a request's way is `service`'s: permit, body, `<resource>/http.rs`,
//! `rules.rs` (pure), `store.rs` (SQL). Every statement names the company of the permit, so another company's id is an
//! unknown one.
//!
//! ```text
//! tickets/   viewer.rs: the caller before a ticket     move_status.rs, assign.rs: judged on the row, moved if it still is so
//! bindings/  rows that stand for tuples on the company's module; guard.rs keeps the last administrator
//! notices/   written with the change that they tell of -> queue -> notification      beside the requests
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
