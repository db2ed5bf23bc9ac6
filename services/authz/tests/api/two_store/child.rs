//! The process that dies: this test binary, restarted with an action and the step to die at. Its authz is the real one
//! behind a gate in the same process, which adds a step before the request and one after the answer.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use contract::Settings;
use contract::id::{CompanyId, parse_uuid};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use testkit::Api;
use tokio::net::TcpListener;

use super::module::{self, Module};
use super::scene::Scene;

/// The action of the child: `share HOLDER [KEY]`, `unshare ID`, `withdraw ID` or `churn PREFIX`.
const DOES: &str = "TWO_STORE_CHILD_DOES";
const DIES_AT: &str = "TWO_STORE_CHILD_DIES_AT";
const COMPANY: &str = "TWO_STORE_CHILD_COMPANY";
const TOKEN: &str = "TWO_STORE_CHILD_TOKEN";
const AUTHZ: &str = "TWO_STORE_CHILD_AUTHZ";

/// Starts a child, which prints a line just before it begins.
pub(crate) fn start(scene: &Scene, does: &str, dies_at: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "two_store::child_process", "--nocapture"]);
    command.env(DOES, does).env(DIES_AT, dies_at);
    command.env(COMPANY, scene.module.company.to_string());
    command.env(TOKEN, &scene.token).env(AUTHZ, scene.authz.to_string());
    command.envs(scene.settings.iter());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("this binary starts")
}

/// Runs a child until it dies at a step.
pub(crate) async fn run(scene: &Scene, does: &str, dies_at: &str) {
    let mut child = start(scene, does, dies_at);
    let ended = tokio::task::spawn_blocking(move || child.wait().expect("a child ends"));
    assert!(was_killed(ended.await.expect("waited")), "\"{does}\" never came to \"{dies_at}\"");
}

pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// Runs as the child if the variables are set; does nothing in the process that runs the tests.
pub(crate) fn become_the_child_if_asked() {
    let settings = Settings::from_pairs(std::env::vars());
    let Some(does) = variable(&settings, DOES) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(live(&settings, does));
}

fn variable<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
    settings.iter().find_map(|(known, value)| (known == name).then_some(value))
}

#[expect(clippy::print_stdout, reason = "the parent waits for the line")]
async fn live(settings: &Settings, does: &str) {
    let variable = |name: &str| variable(settings, name).expect("the parent sets it");
    module::die_at(variable(DIES_AT));
    let authz = gate(variable(AUTHZ).parse().expect("an address")).await;
    let company = CompanyId::from(parse_uuid(variable(COMPANY)).expect("an id"));
    let module = Module::start(settings, company, variable(TOKEN), authz);
    println!("\nready");
    let words: Vec<&str> = does.split(' ').collect();
    match words.as_slice() {
        ["share", holder] => drop(module.share(holder, None).await),
        ["share", holder, key] => drop(module.share(holder, Some(key)).await),
        ["unshare", id] => drop(module.unshare(id.parse().expect("an id")).await),
        ["withdraw", id] => drop(module.withdraw(id.parse().expect("an id")).await),
        ["churn", prefix] => churn(&module, prefix).await,
        _ => unreachable!("the parent says what to do"),
    }
}

/// Shares and unshares repeatedly until it is killed.
async fn churn(module: &Module, prefix: &str) {
    for number in 0_u32.. {
        let holder = format!("{prefix}-{number}");
        let key = number.is_multiple_of(2).then_some(holder.as_str());
        module.share(&holder, key).await.expect("shared");
        if number % 3 == 0 {
            let sql = "SELECT id FROM crm.shares WHERE holder = $1";
            let id = sqlx::query_scalar(sql).bind(&holder).fetch_one(&module.core.pool).await;
            module.unshare(id.expect("the share")).await.expect("taken back");
        }
    }
}

/// Forwards every request to authz.
async fn gate(authz: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let routes = Router::new().fallback(pass).with_state(Api::at(authz));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

async fn pass(State(authz): State<Api>, request: Request) -> Response {
    module::step("asking");
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let mut call = authz.call(parts.method, parts.uri.path()).body(body);
    for name in [AUTHORIZATION, CONTENT_TYPE, service::inside::HEADER] {
        if let Some(value) = parts.headers.get(&name) {
            call = call.header(name.as_str(), value.to_str().expect("text"));
        }
    }
    let reply = call.send().await;
    module::step("answered");
    let response = Response::builder().status(reply.status).header(CONTENT_TYPE, "application/json");
    response.body(Body::from(reply.text)).expect("a response")
}
