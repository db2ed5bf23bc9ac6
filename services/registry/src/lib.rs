//! registry: which modules and apps there are, which are enabled, and what each of them claims. A request's way:
//! `routes.rs` → `<resource>/http.rs` → `rules.rs` (pure) → `store.rs` (SQL), as `service` describes it.
//!
//! Three things hold after every change. Its audit row and a higher revision are committed with it. Changes come one
//! after the other: each locks the revision's row before it reads. Whatever is enabled has its default grants in
//! every active company (`default_grants/`).
//!
//! The edge guards these routes; whoever changes something must be a superadmin here too: registry verifies the bearer again
//! and asks authz for its platform role. authz and org read its facts through the grants of its migration; edges follow `snapshot/`.

pub mod apps;
mod backends;
pub mod bundles;
pub mod catalog;
pub mod config;
mod content;
mod default_grants;
pub mod enablement;
mod reply;
pub mod routes;
pub mod snapshot;
mod start;
mod state;

use service::{Bundle, Core, ServeError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub use apps::check_app;
pub use bundles::{UnknownModules, check_bundles, check_install_list};
pub use config::{Config, VARIABLES};
pub use routes::router;
pub use state::App;

/// The DDL of the schema `registry`.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations/registry");

/// The internal routes as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Serves registry for the modules that `bundles` ships until `shutdown` is cancelled, then drains.
///
/// # Errors
/// [`ServeError::Unfit`] when the bundles or the install list do not fit together, or do not fit what is registered
/// already; else a metric family was registered twice.
pub async fn serve(
    config: Config,
    bundles: Vec<Bundle>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let shipped = bundles::read(&bundles).map_err(ServeError::Unfit)?;
    let install = check_install_list(&bundles, &config.installed_modules);
    let install = install.map_err(|unknown| ServeError::Unfit(unknown.to_string()))?;
    let stop = shutdown.child_token();
    let core = Core::start(&config.service, contract::Clock::system(), &stop)?;
    let hold = core.readiness.hold("catalog");
    let app = App::new(core.clone(), &config, &shipped, &stop);
    let (unfit, found_unfit) = oneshot::channel();
    start::begin(&app, start::Pass { app: app.for_workers(), shipped, install }, hold, unfit);
    backends::start(&app);
    enablement::enabling::start(&app);
    app.follower.start(&core, &app.catalog);
    service::serve(core, router(app), listener, stop, config.service.drain_timeout).await;
    // Nothing was sent by a pass that succeeded, or that the stop came before.
    found_unfit.await.map_or(Ok(()), |why| Err(ServeError::Unfit(why)))
}
