//! The service registry: the modules and apps, whether each is enabled, and the object types and feature keys that each
//! claims. A request goes through `routes.rs` → `<resource>/http.rs` → `rules.rs` (pure) → `store.rs` (SQL), as
//! `service` describes.
//!
//! Three invariants hold. The audit row and a higher revision are committed with each change. Changes are serialized:
//! each locks the revision's row before it reads. Every enabled module and app has its default grants in every active
//! company (`default_grants/`).
//!
//! The gateway guards these routes. For a change, registry verifies the bearer again and asks authz whether its subject
//! is a superadmin. authz and org read registry's data through the grants of its migrations; gateways follow
//! `snapshot/`.

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

/// Serves registry for the modules in `bundles` until `shutdown` is cancelled, then drains.
///
/// # Errors
/// [`ServeError::Unfit`] if the bundles and the install list are inconsistent, or conflict with what is already
/// registered. Also fails if a metric family is registered twice.
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
    // The sender is dropped without a message if the pass succeeded or the service was stopped first.
    found_unfit.await.map_or(Ok(()), |why| Err(ServeError::Unfit(why)))
}
