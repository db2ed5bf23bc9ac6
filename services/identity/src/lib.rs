//! identity: one record per subject of the identity provider, its account's state there and its lifecycle here. A
//! request's way: `routes.rs` → `<resource>/http.rs` → `rules.rs` (pure) → `store.rs` (SQL), as `service` describes it.
//!
//! Beside its routes it looks at the provider (`look/`): which accounts are disabled or gone. A look counts only when it
//! is complete; its time is stored with what it found, and authz refuses to decide when the last one is too old. So no
//! decision ever asks the provider, and none rests on a state that is older than a token may live.
//!
//! Beside a real Keycloak it also makes the realm and the platform's clients there be as configured, once at every start
//! (`reconcile/`).
//!
//! E-mail and names are display data: never keys, never authority. Closing a subject forgets them and has the provider remove
//! the account (`removal/`).

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
