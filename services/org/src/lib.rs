//! The service org: companies with their units, members, positions and groups. A request goes through `routes.rs` →
//! `<resource>/http.rs` → `rules.rs` (pure) → `store.rs` (SQL), as `service` describes.
//!
//! Three invariants hold after every write. The audit row is committed with the change. The tuples derived from rows
//! (`tuples/`) equal their definition, the view `org.derived_tuples`. Every active company has the default grants of
//! every enabled module (`default_grants.rs`). In addition, a worker removes personal data from the member rows of
//! subjects that identity has closed (`forgetting/`).
//!
//! The gateway guards these routes. On administration routes, org verifies the bearer again and asks authz for its
//! platform role. Other services read org's data through the views of its migrations, never from its tables.

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
/// Fails if a metric family is registered twice.
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
