//! notification: the channels of a company and what is told of deliveries, later the messages that go through them and
//! their delivery. A request's way:
//! `routes.rs` → `<resource>/http.rs` (bearer, company, decision, then the query) → `store.rs` (SQL), as `service`
//! describes it.
//!
//! Every operation asks authz first and holds a `Permit` before it touches the store; every statement names the company
//! of the permit, so another company's id is an unknown one. Operations that are not in `openapi.json` are not there:
//! their paths are unknown. Their tables are.

pub mod channels;
pub mod config;
pub mod delivery;
pub mod features;
pub mod routes;
mod state;

use contract::{Clock, Variable};
use service::module::Parts;
use service::{Bundle, ServeError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::Config;
pub use routes::router;
pub use state::App;

/// Names the schema, the role, the base path and the features.
pub const KEY: &str = "notification";
/// `service.port` of the manifest.
pub const PORT: u16 = 8150;
/// The variables that this module reads beside those of every service.
pub const VARIABLES: &[Variable] = &[delivery::meter::RECOUNT];
/// The operations as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");
/// The DDL of the schema `notification`.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations");
/// The files of the module contract.
pub const BUNDLE: Bundle = Bundle {
    key: KEY,
    manifest: include_str!("../module.manifest.json"),
    fragment: include_str!("../authz.fragment.json"),
    openapi: OPENAPI,
    license: include_str!("../LICENSE"),
    migrations: &MIGRATIONS,
};

/// Serves the module until `shutdown` is cancelled, then drains.
///
/// # Errors
/// A metric family was registered twice.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let routes = |parts: Parts| {
        let meter = delivery::Meter::register(&parts.core.metrics)?;
        let pool = parts.core.workers.pool().clone();
        parts.core.workers.every("delivery_recount", config.recount_interval, move || {
            let (meter, pool) = (meter.clone(), pool.clone());
            async move { meter.count(&pool).await }
        });
        Ok(router(App::from(parts)))
    };
    service::module::serve(&config.module, Clock::system(), listener, shutdown, routes).await
}
