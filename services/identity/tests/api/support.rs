//! A running identity with its dependencies.

use contract::{Clock, Settings};
use http::Method;
use identity::look::{self, Scope};
use identity::{App, Config};
use serde_json::{Value, json};
use service::{ApiError, Core};
use sqlx::PgPool;
use testkit::{Api, OpenApi, Reply, TestDatabase, TokenIssuer, until};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::provider::Provider;

/// The operator's credential.
pub(crate) const OPERATOR: &str = "the-credential-of-an-operator";

/// A quick look for all deletions.
pub(crate) const QUICK: Scope = Scope::Quick { since: OffsetDateTime::UNIX_EPOCH };

/// A running identity.
pub(crate) struct Identity {
    pub(crate) api: Api,
    pub(crate) provider: Provider,
    pub(crate) issuer: TokenIssuer,
    pub(crate) owner: PgPool,
    app: App,
    document: OpenApi,
    _stop: DropGuard,
}

impl Identity {
    /// Starts one that looks at the provider once at its start, and then only when a test asks for it.
    pub(crate) async fn start() -> Self {
        Self::start_with("10m").await
    }

    /// Starts one that looks at the provider at this interval, and waits for its first look.
    pub(crate) async fn start_with(interval: &str) -> Self {
        let provider = Provider::start().await;
        let identity = Self::spawn(provider, interval).await;
        until("the first look", || async { identity.looks().await == 1 }).await;
        until("the first look at all accounts", || async { identity.has_looked_at_all().await }).await;
        identity
    }

    /// Starts one with a provider that a test has prepared.
    pub(crate) async fn spawn(provider: Provider, interval: &str) -> Self {
        let (database, issuer) = (testkit::database().await, TokenIssuer::start().await);
        let settings =
            settings(&database, &issuer, &provider).with("PLATFORM_IDENTITY_LOOK_INTERVAL", interval);
        let config = Config::read(&settings).expect("a configuration");
        let stop = CancellationToken::new();
        let core = Core::start(&config.service, Clock::system(), &stop).expect("metrics");
        let app = App::new(core, &config);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let api = Api::at(listener.local_addr().expect("bound"));
        tokio::spawn(identity::serve(config, listener, stop.clone()));
        let document = OpenApi::parse(identity::OPENAPI);
        let owner = database.owner_pool();
        let identity = Self { api, provider, issuer, owner, app, document, _stop: stop.drop_guard() };
        identity.until_it_has_its_keys().await;
        identity
    }

    /// Waits until bearers are verified: the listener opens at once, but the keys arrive a moment later.
    async fn until_it_has_its_keys(&self) {
        let token = self.issuer.issue("nobody");
        until("identity verifies bearers", || async {
            let probe = self.api.post("/internal/identity/provision").bearer(&token).body("{");
            probe.send().await.body["error"]["details"]["dependency"] != "idp"
        })
        .await;
    }

    /// Runs one look.
    pub(crate) async fn look(&self, scope: Scope) -> Result<usize, ApiError> {
        look::once(&self.app, scope, None).await.map(|looked| looked.changed)
    }

    /// Runs one look before which this time of the last one was read.
    pub(crate) async fn look_after(&self, scope: Scope, seen: OffsetDateTime) -> Result<usize, ApiError> {
        look::once(&self.app, scope, Some(seen)).await.map(|looked| looked.changed)
    }

    /// The stored time of the last look.
    pub(crate) async fn last_look(&self) -> OffsetDateTime {
        sqlx::query_scalar("SELECT at FROM identity.provider_look")
            .fetch_one(&self.owner)
            .await
            .expect("a look")
    }

    /// Asks the provider for every due removal.
    pub(crate) async fn remove_due(&self) -> Result<(), ApiError> {
        identity::removal::once(&self.app).await
    }

    /// Runs a quick look.
    pub(crate) async fn quick_look(&self) -> Result<usize, ApiError> {
        self.look(QUICK).await
    }

    /// Sends with the operator's credential, which most routes ignore, and checks the response against the document.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        let call = self.api.call(method.clone(), path).bearer(OPERATOR);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        self.checked(method.as_str(), path, call).await
    }

    /// Sends a call unchanged and checks the response against the document.
    pub(crate) async fn checked(&self, method: &str, path: &str, call: testkit::Call) -> Reply {
        let reply = call.send().await;
        self.document.check(method, path, &reply);
        reply
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Provisions a subject whose account is enabled at the provider.
    pub(crate) async fn known(&self, subject: &str) {
        self.provider.account(subject, subject, true);
        let reply = self.provision(json!({ "kcSub": subject, "kind": "user", "displayName": subject })).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    /// Provisions with the subject's own bearer, as the gateway does.
    pub(crate) async fn provision(&self, body: Value) -> Reply {
        const PATH: &str = "/internal/identity/provision";
        let subject = body["kcSub"].as_str().filter(|subject| subject.len() <= 255).unwrap_or("nobody");
        let call = self.api.post(PATH).bearer(&self.issuer.issue(subject));
        self.checked("POST", PATH, call.json(body)).await
    }

    /// `idpEnabled` of a subject.
    pub(crate) async fn is_enabled(&self, subject: &str) -> bool {
        self.get(&format!("/internal/identity/users/{subject}")).await.data()["idpEnabled"] == json!(true)
    }

    /// `actor action subject` of every audit row, in order.
    pub(crate) async fn audit(&self) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT actor || ' ' || action || ' ' || subject FROM audit.identity__events ORDER BY seq",
        )
        .fetch_all(&self.owner)
        .await
        .expect("the audit table")
    }

    /// Rows of `provider_look`.
    pub(crate) async fn looks(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM identity.provider_look")
            .fetch_one(&self.owner)
            .await
            .expect("a count")
    }

    /// Whether the service's own full look is over: a page, then the known subjects.
    async fn has_looked_at_all(&self) -> bool {
        let is_over = |line: &str| {
            line.contains("worker=\"idp_full_look\"")
                && line.contains("\"succeeded\"")
                && line.ends_with("} 2")
        };
        self.api.get("/metrics").send().await.text.lines().any(is_over)
    }

    /// Age of the last complete look in seconds.
    pub(crate) async fn look_age(&self) -> f64 {
        sqlx::query_scalar(
            "SELECT extract(epoch FROM clock_timestamp() - at)::float8 FROM identity.provider_look",
        )
        .fetch_one(&self.owner)
        .await
        .expect("a look")
    }

    /// Sets the age of the last complete look.
    pub(crate) async fn age_look(&self, seconds: f64) {
        self.run(
            sqlx::query("UPDATE identity.provider_look SET at = now() - make_interval(secs => $1)")
                .bind(seconds),
        )
        .await;
    }

    /// Grants the platform role, as authz would.
    pub(crate) async fn superadmin(&self, subject: &str) {
        let sql =
            "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source)
                   VALUES ('system', 'platform', 'superadmin', 'user', $1, 'role')";
        self.run(sqlx::query(sql).bind(subject.to_owned())).await;
    }

    /// Changes the database as the superuser.
    pub(crate) async fn run(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) {
        query.execute(&self.owner).await.expect("the superuser may");
    }
}

fn settings(database: &TestDatabase, issuer: &TokenIssuer, provider: &Provider) -> Settings {
    testkit::settings("identity", database, issuer)
        .with("PLATFORM_IDP_URL", provider.stub.url())
        .with("PLATFORM_IDP_ADMIN_CLIENT_ID", "platform-admin")
        .with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "secret")
        .with("PLATFORM_IDP_RECONCILE", "off")
        .with("PLATFORM_OPERATOR_TOKEN", OPERATOR)
}

/// `path rule` of every wrong field.
pub(crate) fn fields(reply: &Reply) -> Vec<String> {
    let fields = reply.body["error"]["details"]["fields"].as_array().cloned().unwrap_or_default();
    let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
    fields.iter().map(|field| format!("{} {}", text(field, "path"), text(field, "rule"))).collect()
}

/// Runs calls concurrently.
pub(crate) async fn together<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    futures_util::future::join_all(calls).await
}
