//! notification: the channels of a company, the messages that go through them, and their delivery by webhook and
//! e-mail. `operations.rs` is the table of operations. A request takes the steps that `service` lays down for every
//! module: permit, body, `<resource>/http.rs`, `rules.rs` (pure), `store.rs` (SQL). Every statement filters by the
//! permit's company, so another company's id is unknown.
//!
//! ```text
//! messages/ createMessage -> publish: message, jobs, audit row, key      one transaction (the outbox)
//! delivery/ queue: claim -> webhook or mail -> settle                    in the background, by service::workers
//! backlog/  what happens to very many pending deliveries at once         in portions, by the same
//! ```

mod app;
mod backlog;
pub mod channels;
pub mod deliveries;
pub mod delivery;
pub mod events;
pub mod former_members;
pub mod health;
pub mod messages;
pub mod operations;
pub mod secrets;
pub mod settings;
pub mod subscriptions;

pub use app::App;
pub use operations::operations;

service::declare_module! {
    key: "notification", port: 8150, operations: operations, settings: settings::Settings, state: app::start
}
