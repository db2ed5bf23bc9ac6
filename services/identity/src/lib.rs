//! The service identity: keeps one record per subject of the identity provider, with its account's state there and its
//! lifecycle here. A request goes through `routes.rs` → `<resource>/http.rs` → `rules.rs` (pure) → `store.rs` (SQL), as
//! `service` describes.
//!
//! Workers poll the provider (`look/`) for disabled and removed accounts. A look counts only if it is complete. Its
//! time is stored with its findings, and authz refuses to decide if the last look is too old. So no decision ever asks
//! the provider, and none relies on a state older than the lifetime of a token.
//!
//! With an external Keycloak, identity also reconciles the realm and the platform's clients with the configuration,
//! once at every start (`reconcile/`).
//!
//! E-mail addresses and names are display data: never keys, never authority. Closing a subject erases them and has the
//! provider remove the account (`removal/`).

pub mod config;
mod lifecycle;
pub mod look;
pub mod provider;
mod provision;
pub mod reconcile;
pub mod removal;
pub mod routes;
mod state;
mod texts;
mod users;

use service::{Core, ServeError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::{Config, VARIABLES};
pub use routes::router;
pub use state::App;

/// The DDL of the schema `identity`.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/identity");

/// The internal routes as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Serves identity until `shutdown` is cancelled, then drains.
///
/// # Errors
/// A metric family was registered twice.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let core = Core::start(&config.service, contract::Clock::system(), &shutdown)?;
    let app = App::new(core.clone(), &config);
    look::start(&app, config.intervals);
    removal::start(&app);
    if let Some(target) = config.reconcile {
        reconcile::start(&app, target);
    }
    service::serve(core, router(app), listener, shutdown, config.service.drain_timeout).await;
    Ok(())
}
