//! API tests of the notification module: each test starts the module on a fresh database, with scripted authz and org.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a broken premise fails the test that has it"
)]

mod backlog;
mod channels;
mod contract_files;
mod crash;
mod deliveries;
mod delivery;
mod events;
mod former_members;
mod gates;
mod health;
mod in_use;
mod isolation;
mod ladder;
mod lists;
mod mail;
mod messages;
mod read;
mod secrets;
mod settings;
mod shares;
mod ssrf;
mod subscriptions;
mod support;

use contract::{Clock, Settings};
use notification::{Config, KEY, OPENAPI};
use testkit::ModuleApi;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

testkit::module_api!(notification);

/// Starts the module with these additional settings.
async fn start_with(more: &'static [(&'static str, &'static str)]) -> ModuleApi {
    let with =
        move |settings: Settings| more.iter().fold(settings, |all, (name, value)| all.with(*name, *value));
    ModuleApi::start(KEY, OPENAPI, move |settings, listener, stop| serve(with(settings), listener, stop))
        .await
}

async fn serve_by(clock: Clock, settings: Settings, listener: TcpListener, stop: CancellationToken) {
    let config = Config::read(&settings).expect("the settings of a test are right");
    notification::serve_by(clock, config, listener, stop).await.expect("the listener works");
}
