//! timesheet: the members of a company record their weeks, and approvers decide them. A request's way: `routes.rs` →
//! `<resource>/http.rs` (bearer, company, decision, then the body) → `rules.rs` (pure) → `store.rs` (SQL), as `service`
//! describes it.
//!
//! Every operation asks authz first and holds a `Permit` before it touches the store; every change is committed with its
//! audit row; every statement names the company of the permit, so another company's id is an unknown one. Whoever
//! writes hours or submits takes the lock of the member's week first (`weeks/`), so what was approved cannot change.

pub mod config;
pub mod entries;
pub mod features;
pub mod member_approvers;
pub mod overview;
pub mod projects;
mod refusal;
pub mod reports;
pub mod routes;
pub mod settings;
mod state;
pub mod submission_entries;
pub mod submissions;
pub mod weeks;
pub mod whole_week;

use contract::{Clock, Variable};
use service::module::Parts;
use service::{Bundle, ServeError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::Config;
pub use routes::router;
pub use state::App;

/// Names the schema, the role, the base path and the features.
pub const KEY: &str = "timesheet";
/// `service.port` of the manifest.
pub const PORT: u16 = 8160;
/// The variables that this module reads beside those of every service.
pub const VARIABLES: &[Variable] = service::module::VARIABLES;
/// The operations as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");
/// The DDL of the schema `timesheet`.
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
    serve_by(Clock::system(), config, listener, shutdown).await
}

/// The same by another clock, for which weeks are open and tokens valid as it says.
///
/// # Errors
/// As [`serve`].
pub async fn serve_by(
    clock: Clock,
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let routes = |parts: Parts| Ok(router(App::from(parts)));
    service::module::serve(&config.module, clock, listener, shutdown, routes).await
}
