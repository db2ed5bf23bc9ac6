//! `tasks`, an example module: tasks that are visible to their owners and the module's administrators. It is not
//! shipped. It has one resource with what most modules need: a list with a cursor, permits for one object, rows that
//! stand for tuples, an idempotent create, audit rows, and a worker.
//!
//! `operations.rs` is the table of operations. The `service` crate defines the path of a request: permit, body,
//! `tasks/http.rs`, `rules.rs` (pure), `store.rs` (SQL). Every statement names the permit's company, so another
//! company's id is unknown.

pub mod operations;
pub mod tasks;

pub use operations::operations;
use service::ServeError;
pub use service::module::Parts as App;

service::declare_module! { key: "tasks", port: 8199, operations: operations, settings: (), state: start }

/// Starts the worker that settles tasks whose creation or deletion was interrupted by a crash.
///
/// # Errors
/// None.
pub fn start(parts: App, (): &()) -> Result<App, ServeError> {
    parts.sweep_rows::<tasks::rules::Task>("tasks_sweep");
    Ok(parts)
}
