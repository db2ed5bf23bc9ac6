//! API tests of the notification module: each starts it on a fresh database, with authz and org scripted.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a broken premise fails the test that has it"
)]

mod channels;
mod contract_files;
mod delivery;
mod gates;

use contract::Settings;
use notification::{Config, KEY, OPENAPI};
use serde_json::Value;
use testkit::{ModuleApi, Reply};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

async fn start() -> ModuleApi {
    ModuleApi::start(KEY, OPENAPI, serve).await
}

async fn start_without_database() -> ModuleApi {
    ModuleApi::start_without_database(KEY, OPENAPI, serve).await
}

async fn serve(settings: Settings, listener: TcpListener, stop: CancellationToken) {
    let config = Config::read(&settings).expect("the settings of a test are right");
    notification::serve(config, listener, stop).await.expect("the listener works");
}

/// The wrong fields of a refused body, as `path rule`.
fn wrong_fields(reply: &Reply) -> Vec<String> {
    assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{}", reply.text);
    let fields = reply.body["error"]["details"]["fields"].as_array().expect("details name the fields");
    let word = |field: &Value, name: &str| field[name].as_str().expect("a text").to_owned();
    fields.iter().map(|field| format!("{} {}", word(field, "path"), word(field, "rule"))).collect()
}
