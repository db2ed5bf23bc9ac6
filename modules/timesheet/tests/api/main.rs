//! API tests of the timesheet module: each starts it on a fresh database, with authz and org scripted.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]

mod batch;
mod contract_files;
mod decisions;
mod entries;
mod gates;
mod hazards;
mod member_approvers;
mod overview;
mod projects;
mod properties;
mod reports;
mod settings;
mod submission_entries;
mod submissions;
mod support;
mod whole_week;
mod world;

use contract::Settings;
use serde_json::Value;
use testkit::{ModuleApi, Reply};
use timesheet::{Config, KEY, OPENAPI};
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
    timesheet::serve(config, listener, stop).await.expect("the listener works");
}

/// The wrong fields of a refused body, as `path rule`.
fn wrong_fields(reply: &Reply) -> Vec<String> {
    assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{}", reply.text);
    let fields = reply.body["error"]["details"]["fields"].as_array().expect("details name the fields");
    let word = |field: &Value, name: &str| field[name].as_str().expect("a text").to_owned();
    fields.iter().map(|field| format!("{} {}", word(field, "path"), word(field, "rule"))).collect()
}
