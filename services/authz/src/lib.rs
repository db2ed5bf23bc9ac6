//! authz decides whether a subject may do something here. A decision goes through `routes.rs` → `access/http.rs` →
//! `decision/` (seven steps in one list) over `engine/facts.rs`, which an engine (`engine/`) reads from one moment of
//! the database. The other parts are the summary (`summary/`), grants (`grants/`), the platform role (`roles/`) and the
//! pruning of the change log (`feed.rs`).
//!
//! authz fails closed: facts that cannot be read give 503, never a denial and never an allow. It commits a denial to
//! the audit table before it answers. It reads other services' facts through the views they maintain for it and calls
//! no service for a decision. Only a start without a superadmin asks identity to resolve the configured names.

pub mod access;
pub mod cases;
pub mod config;
pub mod decision;
mod denials;
pub mod engine;
pub mod feed;
pub mod grants;
pub mod meter;
pub mod operate;
pub mod roles;
pub mod routes;
mod state;
pub mod summary;

use service::{Core, ServeError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::{Config, VARIABLES};
pub use denials::{Denial, DenialLog};
pub use engine::facts;
pub use routes::router;
pub use state::App;

/// The DDL of the schemas `authz` and `feed`.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/authz");

/// The internal routes, as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Serves authz until `shutdown` is cancelled, then drains.
///
/// # Errors
/// A metric family is registered twice, or there is no superadmin and the configuration names none.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let core = Core::start(&config.service, contract::Clock::system(), &shutdown)?;
    let hold = core.readiness.hold("platform superadmins");
    let superadmins = roles::start::ensure_holder(core.clone(), &config, hold);
    core.workers.every("change_log_prune", feed::INTERVAL, feed::Pruning::on(core.workers.pool().clone()));
    let app = App::start(core.clone(), &config, &shutdown)?;
    let workers = core.workers.clone();
    let serving = service::serve(core, router(app), listener, shutdown, config.service.drain_timeout);
    tokio::select! {
        () = serving => Ok(()),
        Err(unfit) = superadmins => {
            workers.end().await;
            Err(unfit)
        }
    }
}
