//! A running registry for one test, with a fresh database, a token issuer and test modules. Every response is checked
//! against the OpenAPI document.

use std::time::{Duration, Instant};

use registry::{Config, OPENAPI};
use serde_json::{Value, json};
use service::{Bundle, ServeError};
use sqlx::{PgPool, Row};
use testkit::{Api, OpenApi, Reply, Stub, TestDatabase, TokenIssuer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest wait in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The subject of [`TestApp::admin`].
pub(crate) const ADMIN: &str = "admin-subject";
/// authz's route for the platform role.
pub(crate) const ROLE: &str = "/internal/authz/superadmin/*";
/// identity's route for the account of a client.
pub(crate) const ACCOUNTS: &str = "/internal/identity/service-accounts/*";

pub(crate) struct TestApp {
    pub(crate) api: Api,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) database: TestDatabase,
    pub(crate) owner: PgPool,
    pub(crate) admin: String,
    pub(crate) issuer: TokenIssuer,
    pub(crate) authz: Stub,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<Result<(), ServeError>>,
}

/// A test module.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) key: &'static str,
    pub(crate) port: u16,
    pub(crate) version: &'static str,
    pub(crate) mandatory: bool,
    pub(crate) needs: Vec<(&'static str, &'static str)>,
    pub(crate) relations: Value,
}

pub(crate) fn made(key: &'static str, port: u16) -> Made {
    Made { key, port, version: "1.2.0", mandatory: false, needs: Vec::new(), relations: json!({}) }
}

impl Made {
    pub(crate) fn manifest(&self) -> Value {
        let need =
            |(key, range): &(&str, &str)| json!({"moduleKey": key, "versionRange": range, "required": true});
        json!({
            "contractVersion": 1, "moduleKey": self.key, "displayName": self.key.to_uppercase(),
            "version": self.version, "scopeType": "company", "mandatory": self.mandatory,
            "service": {"basePath": format!("/api/{}", self.key), "port": self.port, "healthPath": "/health", "image": null},
            "dependencies": self.needs.iter().map(need).collect::<Vec<_>>(),
            "org": {"requiredOrgUnitTypes": ["company"], "usesMembers": true, "usesPositions": false},
            "data": {"postgresSchema": self.key, "migrationsPath": "migrations"},
            "license": {"class": "open", "spdx": "Apache-2.0", "entitlementRequired": false}, "events": null
        })
    }

    pub(crate) fn fragment(&self) -> Value {
        json!({
            "moduleKey": self.key, "roles": [], "objects": [], "relations": self.relations, "features": [],
            "fieldCatalog": [], "fieldSets": [], "rowScopes": [],
            "bootstrapPolicy": {"seedCompanyCreatorObjectRelations": []}
        })
    }

    pub(crate) fn bundle(&self) -> Bundle {
        bundle(self.key, &self.manifest(), &self.fragment())
    }
}

/// Builds a bundle. A bundle's files are static strings, so this leaks them.
pub(crate) fn bundle(key: &'static str, manifest: &Value, fragment: &Value) -> Bundle {
    let leak = |value: &Value| -> &'static str { Box::leak(value.to_string().into_boxed_str()) };
    let (manifest, fragment) = (leak(manifest), leak(fragment));
    Bundle { key, manifest, fragment, openapi: "{}", license: "", migrations: &registry::MIGRATIONS }
}

/// Starts registry with `modules` on a database, without waiting until it is ready.
pub(crate) async fn launch(database: TestDatabase, modules: &[Made], install: &str) -> TestApp {
    let port = database.port();
    launch_at(database, port, modules, install).await
}

/// Like [`launch`], with the database behind another port.
pub(crate) async fn launch_at(database: TestDatabase, port: u16, modules: &[Made], install: &str) -> TestApp {
    let identity = Stub::start().await;
    identity.answer_with("GET", ACCOUNTS, |asked| {
        let client = asked.path.rsplit('/').next().unwrap_or_default();
        (200, account(client, Some(&format!("account-of-{client}"))))
    });
    launch_beside(identity, database, port, modules, install).await
}

/// Like [`launch_at`], with a prepared identity.
pub(crate) async fn launch_beside(
    identity: Stub,
    database: TestDatabase,
    port: u16,
    modules: &[Made],
    install: &str,
) -> TestApp {
    let (issuer, authz) = (TokenIssuer::start().await, Stub::start().await);
    authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    let settings = testkit::settings("registry", &database, &issuer)
        .with("PLATFORM_AUTHZ_BASE_URL", authz.url())
        .with("PLATFORM_IDENTITY_BASE_URL", identity.url());
    let settings = settings.with("PLATFORM_REGISTRY_DB_PORT", port.to_string());
    let settings = settings.with("PLATFORM_INSTALLED_MODULES", install).with("PLATFORM_DRAIN_TIMEOUT", "5s");
    let config = Config::read(&settings).expect("good settings");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let stop = CancellationToken::new();
    let bundles = modules.iter().map(Made::bundle).collect();
    let serving = tokio::spawn(registry::serve(config, bundles, listener, stop.clone()));
    let (api, owner) = (Api::at(address), database.owner_pool());
    let admin = issuer.issue(ADMIN);
    TestApp { api, address, database, owner, admin, issuer, authz, stop, serving }
}

/// authz's response about the platform role.
pub(crate) fn role(held: bool, reason: &str) -> Value {
    json!({ "data": { "held": held, "reason": reason, "evidence": [], "accountActive": held } })
}

/// identity's response about the account of a client.
pub(crate) fn account(client: &str, subject: Option<&str>) -> Value {
    json!({ "data": { "clientId": client, "kcSub": subject } })
}

/// Starts registry with `modules` on a fresh database and waits until it is ready.
pub(crate) async fn start(modules: &[Made], install: &str) -> TestApp {
    let app = launch(testkit::database().await, modules, install).await;
    app.ready().await;
    app
}

impl TestApp {
    /// Waits until `/ready` answers 200.
    pub(crate) async fn ready(&self) {
        let begun = Instant::now();
        while self.api.get("/ready").send().await.status != 200 {
            assert!(begun.elapsed() < PATIENCE, "never ready");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops registry and starts it again on the same database, with other modules.
    pub(crate) async fn restart(self, modules: &[Made], install: &str) -> Self {
        let database = self.database.clone();
        self.end().await;
        let app = launch(database, modules, install).await;
        app.ready().await;
        app
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.serving).await.expect("it drains");
        ended.expect("no panic").expect("a clean stop");
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        let reply = self.api.get(path).send().await;
        checked("GET", path, reply)
    }

    /// Sends a POST as the administrator, without a body.
    pub(crate) async fn post(&self, path: &str) -> Reply {
        let reply = self
            .api
            .post(path)
            .bearer(&self.admin)
            .header("x-correlation-id", "test-correlation")
            .send()
            .await;
        checked("POST", path, reply)
    }

    pub(crate) async fn enable(&self, key: &str) -> Reply {
        self.post(&format!("/internal/platform/modules/{key}/enable")).await
    }

    pub(crate) async fn disable(&self, key: &str) -> Reply {
        self.post(&format!("/internal/platform/modules/{key}/disable")).await
    }

    pub(crate) async fn register(&self, manifest: Value) -> Reply {
        let path = "/internal/platform/apps";
        checked("POST", path, self.api.post(path).bearer(&self.admin).json(manifest).send().await)
    }

    /// Adds a company without grants, as if org had created it before any module was enabled.
    pub(crate) async fn company(&self, code: &str, is_active: bool) -> Uuid {
        let id = Uuid::now_v7();
        let sql = "INSERT INTO org.units(id, company_id, type_key, depth, code, name, is_active) VALUES ($1, $1, 'company', 0, $2, $2, $3)";
        sqlx::query(sql).bind(id).bind(code).bind(is_active).execute(&self.owner).await.expect("a company");
        id
    }

    /// `action subject actor` of every audit row, in order.
    pub(crate) async fn audit(&self) -> Vec<String> {
        let sql = "SELECT action || ' ' || subject || ' ' || actor FROM audit.registry__events ORDER BY seq";
        sqlx::query_scalar(sql).fetch_all(&self.owner).await.expect("audit rows")
    }

    /// `object#relation@subject` of every tuple, in order.
    pub(crate) async fn tuples(&self) -> Vec<String> {
        let sql = "SELECT object_type || ':' || object_id || '#' || relation || '@' || subject_type || ':' || subject_id
                     FROM authz.tuple ORDER BY 1";
        sqlx::query_scalar(sql).fetch_all(&self.owner).await.expect("tuples")
    }

    pub(crate) async fn revision(&self) -> i64 {
        let row = sqlx::query("SELECT revision FROM registry.model_revision").fetch_one(&self.owner).await;
        row.expect("a revision").get(0)
    }

    /// Waits until the service waits for a lock.
    pub(crate) async fn blocked(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND usename = 'platform_registry' AND datname = current_database()";
        let begun = Instant::now();
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&self.owner).await.expect("activity") == 0 {
            assert!(begun.elapsed() < PATIENCE, "registry waits for no lock");
        }
    }

    pub(crate) async fn sql(&self, statement: &'static str) {
        sqlx::query(statement).execute(&self.owner).await.expect(statement);
    }
}

/// Reads a number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var_os(variable).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(default)
}

/// Prints a test's figures.
#[expect(clippy::print_stdout, reason = "shown by --nocapture")]
pub(crate) fn told(line: &str) {
    println!("{line}");
}

pub(crate) fn checked(method: &str, path: &str, reply: Reply) -> Reply {
    OpenApi::parse(OPENAPI).check(method, path, &reply);
    reply
}

/// `path rule` of every field in the response.
pub(crate) fn fields(reply: &Reply) -> Vec<String> {
    let fields =
        reply.body.pointer("/error/details/fields").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
    fields.iter().map(|field| format!("{} {}", text(field, "path"), text(field, "rule"))).collect()
}
