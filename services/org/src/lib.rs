//! org: companies and their units, members, positions and groups; who is a member of what. A request's way: `routes.rs`
//! → `<resource>/http.rs` → `rules.rs` (pure) → `store.rs` (SQL), as `service` describes it.
//!
//! Three things hold after every write here. Its audit row is committed with it. The tuples that follow from the rows
//! (`tuples/`) are equal to their definition, the view `org.derived_tuples`. A company has the default grants of every
//! enabled module (`default_grants.rs`). The member rows of a subject that identity has closed forget whose they were
//! (`forgetting/`).
//!
//! The edge guards these routes; org verifies the bearer of administration routes again, for the audit row's actor,
//! and decides no rights. Other services read org's facts through the views of its migration, never its tables.

mod assignments;
mod companies;
pub mod config;
mod default_grants;
mod directory;
mod events;
mod forgetting;
mod groups;
mod identity;
mod lookup;
mod members;
mod operators;
mod positions;
pub mod routes;
mod state;
mod tuples;
mod units;

use service::{Core, ServeError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::{Config, VARIABLES};
pub use routes::router;
pub use state::App;

/// The DDL of the schema `org`.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/org");

/// The internal routes as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Serves org until `shutdown` is cancelled, then drains.
///
/// # Errors
/// A metric family was registered twice.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let core = Core::start(&config.service, contract::Clock::system(), &shutdown)?;
    tuples::repair::start(&core);
    forgetting::start(&core);
    let app = App::new(core.clone(), &config);
    service::serve(core, router(app), listener, shutdown, config.service.drain_timeout).await;
    Ok(())
}
