//! authz: may this subject do this here? A decision's way: `routes.rs` → `access/http.rs` → `decision/` (seven steps in
//! one list) over `engine/facts.rs`, which an engine (`engine/`) reads from one moment of the database. Beside it: the
//! summary (`summary/`), grants (`grants/`), the platform role (`roles/`) and the upkeep of the change log (`feed.rs`).
//!
//! Fail closed: what cannot be read is 503, never a no and never a yes. A denial is committed to the audit table before
//! it is answered. authz reads other services' facts through the views they keep for it, and calls none of them for a
//! decision; only at a start without a superadmin does it ask identity who the named ones are.

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

/// The internal routes as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Serves authz until `shutdown` is cancelled, then drains.
///
/// # Errors
/// A metric family was registered twice, or nobody is a superadmin and nobody is to become one.
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
