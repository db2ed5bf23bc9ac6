//! Three modules made for the test, each depending on the one before: registry with their bundles and a gateway in
//! front, in this process, everything else scripted. `MODULE_DEPENDENCY_MISSING` appears and disappears with the middle
//! one.

use std::path::PathBuf;
use std::time::Duration;

use contract::Settings;
use edge::EdgeConfig;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use reqwest::Method;
use serde_json::{Value, json};
use service::Bundle;
use testkit::{Stub, TokenIssuer};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::harness::client::Version;
use crate::harness::{Api, Reply, eventually};

/// How long registry and the gateway may take to become ready on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Registry, and a gateway in front of three scripted modules.
struct Chain {
    admin: Api,
    modules: Stub,
    folder: PathBuf,
    #[expect(dead_code, reason = "held only for its Drop")]
    stops: DropGuard,
}

#[tokio::test]
async fn a_missing_dependency_is_refused_until_it_is_back() {
    let chain = Chain::start(&chain_of("1.2.0")).await;
    for key in ["alpha", "beta", "gamma"] {
        assert_eq!(chain.ask(key).await.status.as_u16(), 200, "{key}");
    }
    for _ in 0..5 {
        chain.switch("beta", "disable").await;
        chain.ask("beta").await.refused(403, "MODULE_DISABLED");
        let refused = chain.ask("gamma").await;
        refused.refused(403, "MODULE_DEPENDENCY_MISSING");
        assert_eq!(
            refused.body["error"]["details"]["missingDependencies"],
            json!(["beta"]),
            "{}",
            refused.body
        );
        assert_eq!(chain.missing("gamma").await, json!(["beta"]));
        assert_eq!(chain.ask("alpha").await.status.as_u16(), 200, "the dependency keeps working");

        chain.switch("beta", "enable").await;
        assert_eq!(chain.ask("gamma").await.status.as_u16(), 200, "the very next request");
        assert_eq!(chain.missing("gamma").await, json!([]));
    }
    // Only a module's direct dependencies count.
    chain.switch("alpha", "disable").await;
    chain.ask("beta").await.refused(403, "MODULE_DEPENDENCY_MISSING");
    assert_eq!(chain.ask("gamma").await.status.as_u16(), 200);
    chain.switch("gamma", "disable").await;
    chain.ask("gamma").await.refused(403, "MODULE_DISABLED");
    let called = chain.modules.requests().len();
    for key in ["alpha", "beta", "gamma"] {
        assert_eq!(chain.ask(key).await.status.as_u16(), 403, "{key}");
    }
    assert_eq!(chain.modules.requests().len(), called, "a refused request reaches no module");
}

#[tokio::test]
async fn a_version_range_is_honoured() {
    for (version, fits) in
        [("1.2.0", true), ("1.9.9", true), ("1.1.9", false), ("2.0.0", false), ("2.0.0-rc.1", false)]
    {
        let problems = registry::check_bundles(&chain_of(version));
        if fits {
            assert!(problems.is_empty(), "{version}: {problems:?}");
        } else {
            let [problem] = problems.as_slice() else { panic!("{version}: {problems:?}") };
            assert!(
                problem.starts_with("beta/module.manifest.json: dependencies[0].versionRange: alpha is "),
                "{problem}"
            );
        }
    }
    let missing = registry::check_bundles(chain_of("1.2.0").get(1..).unwrap_or_default());
    assert!(
        missing.iter().any(|line| line.contains("\"alpha\" is not a module of this platform")),
        "{missing:?}"
    );
}

impl Chain {
    async fn start(bundles: &[Bundle]) -> Self {
        let (database, issuer, modules) =
            (testkit::database().await, TokenIssuer::start().await, Stub::start().await);
        let stop = CancellationToken::new();
        let registry = serve_registry(&database, (&issuer, &modules), bundles, &stop).await;
        let (folder, base_url) = serve_edge(&registry, &issuer, &modules, &stop).await;
        let admin =
            Api::new(&base_url, &folder.join("edge.pem"), Version::Http2).with_token(&issuer.issue("admin"));
        let chain = Self { admin, modules, folder, stops: stop.drop_guard() };
        eventually("the chain is ready", START_LIMIT, || async {
            chain.ask("gamma").await.expect_status(200)
        })
        .await;
        chain
    }

    async fn ask(&self, key: &str) -> Reply {
        self.admin.get(&format!("/api/{key}/v1/things")).await
    }

    async fn switch(&self, key: &str, verb: &str) {
        let path = format!("/api/platform/admin/modules/{key}/{verb}");
        let reply = self.admin.send(Method::POST, &path, None).await;
        assert_eq!(reply.data(200)["enabled"], verb == "enable");
    }

    async fn missing(&self, key: &str) -> Value {
        let capability = self.admin.get(&format!("/api/platform/capabilities/{key}")).await;
        capability.data(200)["missingDependencies"].clone()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("the test's own folder");
    }
}

/// Starts registry; authz and identity are the stub.
async fn serve_registry(
    database: &testkit::TestDatabase,
    (issuer, stub): (&TokenIssuer, &Stub),
    bundles: &[Bundle],
    stop: &CancellationToken,
) -> String {
    let settings = testkit::settings("registry", database, issuer)
        .with("PLATFORM_AUTHZ_BASE_URL", stub.url())
        .with("PLATFORM_IDENTITY_BASE_URL", stub.url());
    let config = registry::Config::read(&settings.with("PLATFORM_INSTALLED_MODULES", "alpha,beta,gamma"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let config = config.expect("good settings");
    tokio::spawn(registry::serve(config, bundles.to_vec(), listener, stop.clone()));
    format!("http://{address}")
}

/// Starts the gateway in front of registry; authz, identity and the modules are one stub. Returns the folder of its
/// certificate.
async fn serve_edge(
    registry: &str,
    issuer: &TokenIssuer,
    modules: &Stub,
    stop: &CancellationToken,
) -> (PathBuf, String) {
    let held = json!({"data": {"held": true, "reason": "ALLOWED", "evidence": []}});
    modules.answer("GET", "/internal/authz/superadmin/*", 200, held);
    modules.answer(
        "POST",
        "/internal/identity/provision",
        200,
        json!({"data": {"kcSub": "admin", "created": false}}),
    );
    modules.answer("GET", "/api/*", 200, json!({"data": []}));
    let folder = std::env::temp_dir().join(format!("e2e-chain-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("edge.pem"), cert.pem()).expect("a file");
    std::fs::write(folder.join("edge.key"), signing_key.serialize_pem()).expect("a file");
    let host = modules.url().trim_start_matches("http://").to_owned();
    let tokens = issuer.settings();
    let settings = tokens.iter().fold(Settings::default(), |all, (name, value)| all.with(name, value));
    let settings = ["ALPHA", "BETA", "GAMMA"]
        .iter()
        .fold(settings, |all, key| all.with(format!("PLATFORM_MODULE_HOST_{key}"), host.clone()))
        .with("PLATFORM_REGISTRY_BASE_URL", registry)
        .with("PLATFORM_AUTHZ_BASE_URL", modules.url())
        .with("PLATFORM_IDENTITY_BASE_URL", modules.url())
        .with("PLATFORM_ORG_BASE_URL", modules.url())
        .with("PLATFORM_TLS_CERT", folder.join("edge.pem").to_string_lossy())
        .with("PLATFORM_TLS_KEY", folder.join("edge.key").to_string_lossy());
    let config = EdgeConfig::read(&settings).expect("good settings");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(edge::serve(config, listener, None, stop.clone()));
    (folder, format!("https://localhost:{port}"))
}

/// The files of one module. Those of shipped modules are constants of the program; a test's are leaked once per module.
fn made(key: &'static str, port: u16, version: &str, needs: Option<(&str, &str)>) -> Bundle {
    let leak = |value: Value| -> &'static str { Box::leak(value.to_string().into_boxed_str()) };
    let need = |(key, range)| json!({"moduleKey": key, "versionRange": range, "required": true});
    let manifest = json!({
        "contractVersion": 1, "moduleKey": key, "displayName": key, "version": version, "scopeType": "company",
        "mandatory": false,
        "service": {"basePath": format!("/api/{key}"), "port": port, "healthPath": "/health", "image": null},
        "dependencies": needs.map(need).into_iter().collect::<Vec<_>>(),
        "org": {"requiredOrgUnitTypes": ["company"], "usesMembers": false, "usesPositions": false},
        "data": {"postgresSchema": key, "migrationsPath": "migrations"},
        "license": {"class": "open", "spdx": "Apache-2.0", "entitlementRequired": false}, "events": null
    });
    let fragment = json!({
        "moduleKey": key, "roles": [], "objects": [], "relations": {}, "features": [], "fieldCatalog": [],
        "fieldSets": [], "rowScopes": [], "bootstrapPolicy": {"seedCompanyCreatorObjectRelations": []}
    });
    let (manifest, fragment) = (leak(manifest), leak(fragment));
    Bundle { key, manifest, fragment, openapi: "{}", license: "", migrations: &registry::MIGRATIONS }
}

/// `alpha` ← `beta` ← `gamma`.
fn chain_of(alpha: &str) -> [Bundle; 3] {
    [
        made("alpha", 8201, alpha, None),
        made("beta", 8202, "1.5.0", Some(("alpha", "^1.2"))),
        made("gamma", 8203, "0.3.0", Some(("beta", ">=1.5 <2"))),
    ]
}
