//! `tasks`, the example of a module: tasks that their owners and the module's administrators see. It does not ship. One
//! resource with what most modules need: a list with a cursor, permits for one object, rows that stand for tuples, an
//! idempotent creation, audit rows, and a worker.
//!
//! `operations.rs` is the table of operations; a request's way is `service`'s: permit, body, `tasks/http.rs`, `rules.rs`
//! (pure), `store.rs` (SQL). Every statement names the company of the permit, so another company's id is an unknown one.

pub mod operations;
pub mod tasks;

pub use operations::operations;
use service::ServeError;
pub use service::module::Parts as App;

service::declare_module! { key: "tasks", port: 8199, operations: operations, settings: (), state: start }

/// Starts the worker that settles tasks which a crash left half made or half deleted.
///
/// # Errors
/// None.
pub fn start(parts: App, (): &()) -> Result<App, ServeError> {
    parts.sweep_rows::<tasks::rules::Task>("tasks_sweep");
    Ok(parts)
}
