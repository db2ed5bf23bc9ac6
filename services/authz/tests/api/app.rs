//! One authz process on its own database, and the rows that it decides by.

use std::net::SocketAddr;
use std::time::Duration;

use authz::engine::SqlEngine;
use contract::id::CompanyId;
use serde_json::{Value, json};
use service::config::{DatabaseConfig, DatabaseTls};
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{Api, OpenApi, Reply, Stub, TestDatabase, TokenIssuer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const CAN: &str = "/internal/authz/effective-access/can";
pub(crate) const ROLES: &str = "/internal/authz/platform-roles";
/// Pause between two polls of a starting service, which sends no notification. Polling without a pause would slow the
/// start on a busy machine. The answer ends the wait, never the pause.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Time limit for the start of a service on a machine that is busy with other tests.
const START: Duration = Duration::from_mins(1);

pub(crate) struct App {
    pub(crate) api: Api,
    pub(crate) address: SocketAddr,
    pub(crate) database: TestDatabase,
    pub(crate) owner: PgPool,
    pub(crate) issuer: TokenIssuer,
    pub(crate) identity: Stub,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<Result<(), service::ServeError>>,
    document: OpenApi,
}

impl App {
    /// Starts with a recent poll of the provider and the superadmin `root`.
    pub(crate) async fn start() -> Self {
        let database = testkit::database().await;
        let rows = Rows(database.owner_pool());
        rows.look(0).await;
        rows.subject("root").await;
        rows.tuple("system:platform#superadmin@user:root", "role").await;
        Self::serve(database, "root").await
    }

    /// Starts on a database as it is.
    pub(crate) async fn serve(database: TestDatabase, superadmins: &str) -> Self {
        let (issuer, identity) = (TokenIssuer::start().await, Stub::start().await);
        let settings = testkit::settings("authz", &database, &issuer)
            .with("PLATFORM_IDENTITY_BASE_URL", identity.url())
            .with("PLATFORM_SUPERADMINS", superadmins);
        let config = authz::Config::read(&settings).expect("good settings");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let api = Api::at(address);
        let stop = CancellationToken::new();
        let serving = tokio::spawn(authz::serve(config, listener, stop.clone()));
        let document = OpenApi::parse(authz::OPENAPI);
        until_keys_are_there(&api, &issuer).await;
        until_loaded(&api).await;
        Self {
            api,
            address,
            owner: database.owner_pool(),
            database,
            issuer,
            identity,
            stop,
            serving,
            document,
        }
    }

    pub(crate) fn rows(&self) -> Rows {
        Rows(self.owner.clone())
    }

    /// Sends a request with any token; the document must list the answer.
    pub(crate) async fn ask_with(&self, token: &str, method: &str, path: &str, body: Value) -> Reply {
        let call = self.api.call(method.parse().expect("a method"), path).bearer(token).json(body);
        let reply = call.send().await;
        self.document.check(method, path, &reply);
        reply
    }

    /// Sends a request as a subject; the document must list the answer.
    pub(crate) async fn ask(&self, method: &str, path: &str, subject: &str, body: Option<Value>) -> Reply {
        let call = self.api.call(method.parse().expect("a method"), path).bearer(&self.issuer.issue(subject));
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        let reply = call.header("x-correlation-id", "test-correlation").send().await;
        self.document.check(method, path, &reply);
        reply
    }

    pub(crate) async fn can(&self, subject: &str, body: Value) -> Reply {
        self.ask("POST", CAN, subject, Some(body)).await
    }

    /// The reason of a decision, which must be available.
    pub(crate) async fn reason(&self, subject: &str, body: Value) -> String {
        let reply = self.can(subject, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let decision = reply.data();
        assert_eq!(decision["allowed"], decision["reason"] == "ALLOWED", "{decision}");
        decision["reason"].as_str().expect("a reason").to_owned()
    }

    pub(crate) async fn audit(&self) -> Vec<Value> {
        let sql = "SELECT jsonb_build_object('companyId', company_id, 'actor', actor, 'action', action,
            'subject', subject, 'correlationId', correlation_id, 'payload', payload)
            FROM audit.authz__events ORDER BY seq";
        sqlx::query_scalar(sql).fetch_all(&self.owner).await.expect("the audit can be read")
    }

    pub(crate) fn document(&self) -> &OpenApi {
        &self.document
    }
}

/// Waits until the service has fetched the provider's keys. Until then it answers every bearer with 503, afterwards a
/// call without a body with 400. A service that has ended does not answer.
async fn until_keys_are_there(api: &Api, issuer: &TokenIssuer) {
    let token = issuer.issue("anybody");
    let fetched = async {
        while api.post(CAN).bearer(&token).try_send().await.is_ok_and(|reply| reply.status == 503) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    tokio::time::timeout(START, fetched).await.expect("the service fetches the provider's keys");
}

/// Waits until the graph is in memory, so that a test does not switch engines. A service that has ended loads nothing.
async fn until_loaded(api: &Api) {
    let loaded = "platform_authz_memory_loaded{service=\"authz\"} 1";
    let in_memory = async {
        while api.get("/metrics").try_send().await.is_ok_and(|reply| !reply.text.contains(loaded)) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    tokio::time::timeout(START, in_memory).await.expect("the service loads the graph into memory");
}

/// An engine for one test, with the connections that the service uses.
pub(crate) fn engine(database: &TestDatabase, budget: i64) -> SqlEngine {
    let config = DatabaseConfig {
        host: database.host().to_owned(),
        port: database.port(),
        name: database.name().to_owned(),
        role: "platform_authz".to_owned(),
        password: database.password().to_owned(),
        max_connections: 2,
        max_worker_connections: 2,
        tls: DatabaseTls::default(),
    };
    SqlEngine::connect(&config, budget)
}

/// The value of one key of a decision's evidence.
pub(crate) fn evidence<'a>(evidence: &'a Value, key: &str) -> &'a str {
    let found = evidence.as_array().into_iter().flatten().find(|item| item["key"] == key);
    found.and_then(|item| item["value"].as_str()).unwrap_or_default()
}

/// A request in company scope.
pub(crate) fn in_company(company: CompanyId) -> Value {
    json!({ "featureKey": "crm.deals.read", "scope": "company", "companyId": company })
}

/// Adds members to a request.
pub(crate) fn with(mut request: Value, more: Value) -> Value {
    let (Value::Object(into), Value::Object(more)) = (&mut request, more) else { return request };
    into.extend(more);
    request
}

/// Writes rows of the other services as the superuser.
#[derive(Clone)]
pub(crate) struct Rows(pub(crate) PgPool);

impl Rows {
    /// Runs statements composed of constants of a test.
    pub(crate) async fn run(&self, sql: impl Into<String>) {
        let sql: String = sql.into();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.0).await.expect("the statement is right");
    }

    pub(crate) async fn look(&self, seconds_ago: i64) {
        self.run(format!(
            "INSERT INTO identity.provider_look(at) VALUES (now() - interval '{seconds_ago} s')
             ON CONFLICT (one) DO UPDATE SET at = excluded.at"
        ))
        .await;
    }

    pub(crate) async fn subject(&self, subject: &str) {
        self.run(format!("INSERT INTO identity.users(kc_sub, kind) VALUES ('{subject}', 'user')")).await;
    }

    pub(crate) async fn company(&self) -> CompanyId {
        let id = CompanyId::mint();
        let code = id.to_string().replace('-', "").to_uppercase();
        self.run(format!(
            "INSERT INTO org.units(id, company_id, type_key, depth, code, name)
             VALUES ('{id}', '{id}', 'company', 0, '{code}', 'A company')"
        ))
        .await;
        id
    }

    /// Adds an active member, with the tuple that org derives.
    pub(crate) async fn member(&self, company: CompanyId, subject: &str) {
        self.run(format!(
            "INSERT INTO org.members(id, company_id, code, display_name, user_id)
             VALUES (gen_random_uuid(), '{company}', '{subject}', '{subject}', '{subject}')"
        ))
        .await;
        self.tuple(&format!("company:{company}#member@user:{subject}"), "org").await;
    }

    /// Adds an installed and enabled app with its relations and features. Its client has the app's key as its name, and
    /// the client's account is `account-of-<key>`.
    pub(crate) async fn app(&self, key: &str, relations: &Value, features: &[&str]) {
        let fragment = json!({ "relations": relations });
        self.run(format!(
            "INSERT INTO registry.modules(key, kind, display_name, version, installed, enabled, manifest, fragment,
                 content_hash, service_client_id, service_subject)
             VALUES ('{key}', 'app', '{key}', '1.0.0', true, true, '{{}}', '{fragment}', sha256('{key}'), '{key}',
                 'account-of-{key}')"
        ))
        .await;
        for feature in features {
            self.run(format!("INSERT INTO registry.feature_keys VALUES ('{feature}', '{key}')")).await;
        }
        self.catalog_changed().await;
    }

    /// Adds an installed and enabled module with its relations.
    pub(crate) async fn module(&self, key: &str, relations: &Value) {
        let fragment = json!({ "relations": relations });
        self.run(format!(
            "INSERT INTO registry.modules(key, kind, display_name, version, port, installed, enabled, manifest, fragment,
                 content_hash)
             SELECT '{key}', 'module', '{key}', '1.0.0', 9000 + count(*), true, true, '{{}}', '{fragment}', sha256('{key}')
               FROM registry.modules"
        ))
        .await;
        self.catalog_changed().await;
    }

    /// Marks the catalog as changed, as registry does in the transaction of every change.
    pub(crate) async fn catalog_changed(&self) {
        self.run("UPDATE registry.model_revision SET revision = revision + 1").await;
    }

    /// Adds the default grants of a module in a company.
    pub(crate) async fn defaults(&self, company: CompanyId, key: &str) {
        self.tuple(&format!("company_module:{company}/{key}#company@company:{company}"), "default").await;
        self.tuple(&format!("company_module:{company}/{key}#system@system:platform"), "default").await;
    }

    /// Adds the tuple `type:id#relation@type:id[#relation]`.
    pub(crate) async fn tuple(&self, text: &str, source: &str) {
        let columns = Tuple::parse(text);
        let list = columns.0.join("', '");
        self.run(format!("INSERT INTO authz.tuple VALUES ('{list}', '{source}')")).await;
    }
}

/// The six columns of a tuple.
pub(crate) struct Tuple(pub(crate) [String; 6]);

impl Tuple {
    pub(crate) fn parse(text: &str) -> Self {
        let (object, subject) = text.split_once('@').expect("an @");
        let (object, relation) = object.split_once('#').expect("a relation");
        let (object_type, object_id) = object.split_once(':').expect("an object");
        let (subject, subject_relation) = subject.split_once('#').unwrap_or((subject, ""));
        let (subject_type, subject_id) = subject.split_once(':').expect("a subject");
        let columns = [object_type, object_id, relation, subject_type, subject_id, subject_relation];
        Self(columns.map(ToOwned::to_owned))
    }
}
