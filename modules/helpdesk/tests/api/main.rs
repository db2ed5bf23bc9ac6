//! API tests of the helpdesk module: each test starts the module on a fresh database, with scripted authz and org.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]

mod assignables;
mod assignment;
mod auto_close;
mod bindings;
mod comments;
mod contract_files;
mod gates;
mod hazards;
mod isolation;
mod moves;
mod notices;
mod plans;
mod properties;
mod relinked;
mod search;
mod settings;
mod tickets;
mod tiers;
mod world;

use contract::{Clock, Settings};
use helpdesk::{Config, KEY, OPENAPI};
use testkit::ModuleApi;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Port 1 (tcpmux) refuses connections on every machine that runs the tests, so notices wait.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Starts the module on a fresh database.
async fn start() -> ModuleApi {
    start_telling(NOWHERE.to_owned()).await
}

/// Starts the module with an unreachable database.
async fn start_without_database() -> ModuleApi {
    ModuleApi::start_without_database(KEY, OPENAPI, |settings, listener, stop| {
        serve(Clock::system(), NOWHERE.to_owned(), settings, listener, stop)
    })
    .await
}

/// Starts the module with notification at this address.
async fn start_telling(notification: String) -> ModuleApi {
    start_by(Clock::system(), notification).await
}

/// Starts the module with this notification address and clock.
async fn start_by(clock: Clock, notification: String) -> ModuleApi {
    ModuleApi::start(KEY, OPENAPI, move |settings, listener, stop| {
        serve(clock, notification, settings, listener, stop)
    })
    .await
}

async fn serve(
    clock: Clock,
    notification: String,
    settings: Settings,
    listener: TcpListener,
    stop: CancellationToken,
) {
    let settings = settings.with("PLATFORM_NOTIFICATION_BASE_URL", notification);
    let config = Config::read(&settings).expect("the settings of a test are right");
    helpdesk::serve_by(clock, config, listener, stop).await.expect("the listener works");
}
