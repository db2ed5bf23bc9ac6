//! notification: the channels of a company and what is told of deliveries, later the messages that go through them and
//! their delivery. `operations.rs` is the table of operations; a request's way is `service`'s: permit, query, `store.rs`
//! (SQL). Every statement names the company of the permit, so another company's id is an unknown one.
//!
//! Operations that are not in `openapi.json` are not there: their paths are unknown. Their tables are.

pub mod channels;
pub mod delivery;
pub mod operations;

pub use operations::operations;
pub use service::module::Parts as App;

service::declare_module! {
    key: "notification", port: 8150, operations: operations, settings: delivery::Settings, state: delivery::start
}
