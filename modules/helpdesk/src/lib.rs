//! helpdesk: tickets of a company's members, assigned to a member, a position or a group. A request's way: `routes.rs` →
//! `<resource>/http.rs` (bearer, company, decision, query, the caller's place in the company) → `rules.rs` (pure) →
//! `store.rs` (SQL), as `service` describes it.
//!
//! Every operation asks authz first and holds a `Permit` before it touches the store; every statement names the company
//! of the permit, so another company's id is an unknown one. Operations that are not in `openapi.json` are not there:
//! their paths are unknown. Their tables are.

pub mod config;
pub mod features;
pub mod routes;
mod state;
pub mod tickets;

use contract::{Clock, Variable};
use service::module::Parts;
use service::{Bundle, ServeError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::Config;
pub use routes::router;
pub use state::App;

/// Names the schema, the role, the base path and the features.
pub const KEY: &str = "helpdesk";
/// `service.port` of the manifest.
pub const PORT: u16 = 8180;
/// The variables that this module reads beside those of every service.
pub const VARIABLES: &[Variable] = service::module::VARIABLES;
/// The operations as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");
/// The DDL of the schema `helpdesk`.
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
    let routes = |parts: Parts| Ok(router(App::from(parts)));
    service::module::serve(&config.module, Clock::system(), listener, shutdown, routes).await
}
