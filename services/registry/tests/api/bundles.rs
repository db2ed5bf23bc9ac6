//! The shipped modules are checked together before the service starts.

use registry::{Config, UnknownModules, check_bundles, check_install_list};
use serde_json::json;
use service::ServeError;
use testkit::TokenIssuer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{Made, bundle, made};

async fn refusal(modules: Vec<service::Bundle>, install: &str) -> String {
    let issuer = TokenIssuer::start().await;
    let settings = testkit::settings("registry", &testkit::database().await, &issuer);
    let config = Config::read(&settings.with("PLATFORM_INSTALLED_MODULES", install)).expect("good settings");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    match registry::serve(config, modules, listener, CancellationToken::new()).await {
        Err(ServeError::Unfit(why)) => why,
        other => panic!("not unfit: {other:?}"),
    }
}

#[tokio::test]
async fn a_broken_file_stops_the_start_named_by_file_and_key() {
    let module = made("alpha", 8201);
    let mut manifest = module.manifest();
    manifest["version"] = json!("one");
    manifest["colour"] = json!("red");
    let broken = bundle("alpha", &manifest, &module.fragment());
    let why = refusal(vec![broken], "").await;
    let lines: Vec<&str> = why.lines().collect();
    assert_eq!(lines.len(), 2, "{why}");
    assert!(lines[0].starts_with("alpha/module.manifest.json: colour: "), "{why}");
    assert!(lines[1].starts_with("alpha/module.manifest.json: version: "), "{why}");
    assert_eq!(check_bundles(&[broken]), lines);
}

#[tokio::test]
async fn modules_that_clash_stop_the_start() {
    let needy = Made { needs: vec![("beta", "^2")], ..made("alpha", 8201) };
    let why = refusal(vec![needy.bundle(), made("beta", 8201).bundle()], "").await;
    let lines: Vec<&str> = why.lines().collect();
    assert!(lines[0].starts_with("beta/module.manifest.json: service.port: "), "{why}");
    assert!(lines[1].starts_with("alpha/module.manifest.json: dependencies[0].versionRange: "), "{why}");
    let circle = |key, port, need| Made { needs: vec![(need, "*")], ..made(key, port) }.bundle();
    let why = refusal(vec![circle("alpha", 1, "beta"), circle("beta", 2, "alpha")], "").await;
    assert!(why.contains("alpha -> beta -> alpha"), "{why}");
}

#[tokio::test]
async fn an_unknown_key_in_the_install_list_stops_the_start() {
    let why = refusal(vec![made("alpha", 8201).bundle()], "alpha, gamma").await;
    assert_eq!(why, "PLATFORM_INSTALLED_MODULES: no such module: gamma; this program ships alpha");
}

#[test]
fn an_install_list_ignores_spaces_and_repetition() {
    let bundles = [made("alpha", 1).bundle(), made("beta", 2).bundle()];
    let list = |text: &str| check_install_list(&bundles, text);
    assert_eq!(list(" beta , alpha,,beta"), Ok(vec!["alpha".to_owned(), "beta".to_owned()]));
    assert_eq!(list(""), Ok(vec![]));
    let unknown = UnknownModules {
        unknown: vec!["Alpha".to_owned()],
        shipped: vec!["alpha".to_owned(), "beta".to_owned()],
    };
    assert_eq!(list("Alpha"), Err(unknown));
}
