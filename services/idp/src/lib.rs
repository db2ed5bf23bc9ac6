//! The built-in OpenID Connect provider, with Keycloak's routes, login markup, token claims and error bodies, so that
//! clients, tests and services work with either. It is for development and small installations on one machine.
//!
//! ```text
//! routes.rs -> realm/   the realm's documents: discovery, signing keys
//!           -> login/   authorization request -> form -> password -> second factor, or passkey -> code
//!           -> account/ the signed-in user's own pages: password, second factor, passkeys, sessions
//!           -> letters/ a forgotten password, an invitation: e-mail -> link -> new password
//!           -> tokens/  code, refresh token or client secret -> tokens
//!           -> userinfo/, logout/   the user behind a token; the end of its session
//!           -> admin/   accounts and keys, for the administration client and operators (never through the gateway)
//! reconcile.rs: keys, clients and users at every start      sweep.rs: removes expired rows
//! keys/, clients/, users/, browser_sessions/, second_factors/, passkeys/: shared parts      pages/: HTML pages
//! ```
//!
//! Nothing here knows companies, members or modules, and no token carries permissions.

mod account;
mod admin;
mod browser_sessions;
mod clients;
pub mod config;
mod cookies;
mod form;
mod keys;
mod letters;
mod login;
mod logout;
mod meter;
mod pages;
mod passkeys;
mod realm;
mod reconcile;
mod refusal;
mod routes;
mod second_factors;
mod state;
mod sweep;
mod tokens;
mod userinfo;
mod users;

use contract::Clock;
use service::ServeError;
use sqlx::migrate::Migrator;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::{Config, VARIABLES};
pub use keys::rotation::step as rotate_once;
pub use login::failures::step as write_failures_once;
pub use routes::router;
pub use state::App;
pub use sweep::step as sweep_once;

/// The migrations of the schema `idp`.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/idp");
/// The routes as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Prepares keys, clients and users, then serves until `shutdown`. Connections wait in the listener's queue until then,
/// so a response of `/ready` means that logins work.
///
/// # Errors
/// The data cannot be prepared, for a reason other than an outage.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    serve_at(config, Clock::system(), listener, shutdown).await
}

/// Like [`serve`], at the time of `clock`, for tests.
///
/// # Errors
/// As [`serve`].
pub async fn serve_at(
    config: Config,
    clock: Clock,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let Some(app) = App::start(&config, clock, &shutdown).await? else { return Ok(()) };
    sweep::start(&app);
    login::failures::start(&app);
    letters::worker::start(&app);
    let core = app.core().clone();
    service::serve(core, router(app), listener, shutdown, config.service.drain_timeout).await;
    Ok(())
}
