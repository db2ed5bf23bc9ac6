//! A running org with its dependencies.

use contract::Settings;
use http::Method;
use serde_json::{Value, json};
use sqlx::PgPool;
use testkit::client::Call;
use testkit::until;
use testkit::{Api, OpenApi, Reply, Stub, TestDatabase, TokenIssuer};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Subject of the bearer that tests use by default.
pub(crate) const ADMIN: &str = "admin-subject";
/// The operator's credential.
pub(crate) const OPERATOR: &str = "the-credential-of-an-operator";
/// authz's route for the platform role.
pub(crate) const ROLE: &str = "/internal/authz/superadmin/*";
/// authz's route for access to a company's directory.
pub(crate) const DIRECTORY: &str = "/internal/authz/directory/*";

/// A running org.
pub(crate) struct Org {
    pub(crate) api: Api,
    pub(crate) issuer: TokenIssuer,
    pub(crate) identity: Stub,
    pub(crate) authz: Stub,
    pub(crate) database: TestDatabase,
    pub(crate) owner: PgPool,
    pub(crate) token: String,
    document: OpenApi,
    _stop: DropGuard,
}

impl Org {
    /// Starts org on a fresh database.
    pub(crate) async fn start() -> Self {
        Self::start_on(testkit::database().await).await
    }

    /// Starts org on a prepared database.
    pub(crate) async fn start_on(database: TestDatabase) -> Self {
        let org = Self::spawn(database, |settings| settings).await;
        org.until_it_answers(404).await;
        until("org is ready", || async { org.api.get("/ready").send().await.status == 200 }).await;
        org
    }

    /// Starts org with no server at its database's address.
    pub(crate) async fn without_a_database() -> Self {
        let unused = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = unused.local_addr().expect("bound").port().to_string();
        drop(unused);
        let database = testkit::database().await;
        let org = Self::spawn(database, |settings| settings.with("PLATFORM_ORG_DB_PORT", port)).await;
        org.until_it_answers(503).await;
        org
    }

    async fn spawn(database: TestDatabase, change: impl FnOnce(Settings) -> Settings) -> Self {
        let (issuer, identity, authz) =
            (TokenIssuer::start().await, Stub::start().await, Stub::start().await);
        for question in [ROLE, DIRECTORY] {
            authz.answer("GET", question, 200, role(true, "ALLOWED"));
        }
        identity.answer_with("GET", "/internal/identity/users/*", |request| {
            let known = !request.path.ends_with("stranger");
            let lifecycle = if request.path.ends_with("closed") { "closed" } else { "active" };
            (if known { 200 } else { 404 }, json!({ "data": { "lifecycle": lifecycle } }))
        });
        let settings = testkit::settings("org", &database, &issuer)
            .with("PLATFORM_IDENTITY_BASE_URL", identity.url())
            .with("PLATFORM_AUTHZ_BASE_URL", authz.url())
            .with("PLATFORM_OPERATOR_TOKEN", OPERATOR);
        let config = org::Config::read(&change(settings)).expect("a configuration");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let api = Api::at(listener.local_addr().expect("bound"));
        let stop = CancellationToken::new();
        tokio::spawn(org::serve(config, listener, stop.clone()));
        let token = issuer.issue(ADMIN);
        let owner = database.owner_pool();
        let document = OpenApi::parse(org::OPENAPI);
        Self { api, issuer, identity, authz, database, owner, token, document, _stop: stop.drop_guard() }
    }

    /// Waits for the signing keys, which arrive after the listener opens; until then, `idp` is the missing dependency.
    async fn until_it_answers(&self, status: u16) {
        let probe = format!("/internal/org/admin/units/{}", uuid::Uuid::now_v7());
        until("org answers", || async {
            let reply = self.api.get(&probe).bearer(&self.token).send().await;
            reply.status == status && reply.body["error"]["details"]["dependency"] != "idp"
        })
        .await;
    }

    /// Sends a request with the tests' bearer and checks the response against the document.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        let call = self.api.call(method.clone(), path).bearer(&self.token);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        self.checked(method.as_str(), path, call).await
    }

    /// Sends a call and checks the response against the document.
    pub(crate) async fn checked(&self, method: &str, path: &str, call: Call) -> Reply {
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

    pub(crate) async fn put(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, None).await
    }

    /// Sends a request as another service.
    pub(crate) async fn ask(&self, path: &str) -> Reply {
        self.checked("GET", path, self.api.get(path).service()).await
    }

    /// Requests a subject's companies with its own bearer.
    pub(crate) async fn mine(&self, subject: &str) -> Reply {
        let path = format!("/internal/org/me/companies?kcSub={subject}");
        self.checked("GET", &path, self.api.get(&path).bearer(&self.issuer.issue(subject))).await
    }

    /// Adds an active account of a subject to identity.
    pub(crate) async fn account(&self, subject: &str) {
        let row = sqlx::query("INSERT INTO identity.users(kc_sub, kind) VALUES ($1, 'user')").bind(subject);
        row.execute(&self.owner).await.expect("the superuser may");
    }

    /// Sends a request as an operator.
    pub(crate) async fn operate(&self, path: &str, body: Value) -> Reply {
        self.checked("PUT", path, self.api.put(path).bearer(OPERATOR).json(body)).await
    }

    /// Creates a company and returns its id.
    pub(crate) async fn company(&self, code: &str) -> String {
        let body = json!({ "typeKey": "company", "code": code, "name": code });
        made(&self.post("/internal/org/admin/units", body).await)
    }

    /// Creates a member and returns its id.
    pub(crate) async fn member(&self, company: &str, code: &str) -> String {
        let body = json!({ "companyId": company, "code": code, "displayName": code });
        made(&self.post("/internal/org/admin/members", body).await)
    }

    /// Links a member.
    pub(crate) async fn link(&self, member: &str, subject: &str) -> Reply {
        let path = format!("/internal/org/admin/members/{member}/link-user");
        self.post(&path, json!({ "kcSub": subject })).await
    }

    /// Creates a position and returns its id.
    pub(crate) async fn position(&self, company: &str, code: &str) -> String {
        let path = format!("/internal/org/admin/companies/{company}/positions");
        made(&self.post(&path, json!({ "code": code, "title": code, "orgUnitId": company })).await)
    }

    /// Creates a group and returns its id.
    pub(crate) async fn group(&self, company: &str, code: &str) -> String {
        let path = format!("/internal/org/admin/companies/{company}/groups");
        made(&self.post(&path, json!({ "code": code, "name": code })).await)
    }

    /// `actor action subject` of every audit row, in order.
    pub(crate) async fn audit(&self) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT actor || ' ' || action || ' ' || subject FROM audit.org__events ORDER BY seq",
        )
        .fetch_all(&self.owner)
        .await
        .expect("the audit table")
    }

    /// Every tuple of a source as text, in order.
    pub(crate) async fn tuples(&self, source: &str) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT object_type || ':' || object_id || '#' || relation || '@' || subject_type || ':' || subject_id
               FROM authz.tuple WHERE source = $1 ORDER BY 1",
        )
        .bind(source)
        .fetch_all(&self.owner)
        .await
        .expect("the tuples")
    }
}

/// authz's response about the platform role or the directory.
pub(crate) fn role(held: bool, reason: &str) -> Value {
    json!({ "data": { "held": held, "reason": reason, "evidence": [], "accountActive": held } })
}

/// The id of the created object.
pub(crate) fn made(reply: &Reply) -> String {
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.data()["id"].as_str().expect("an id").to_owned()
}

/// `path rule` of every invalid field.
pub(crate) fn fields(reply: &Reply) -> Vec<String> {
    let fields = reply.body["error"]["details"]["fields"].as_array().cloned().unwrap_or_default();
    let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
    fields.iter().map(|field| format!("{} {}", text(field, "path"), text(field, "rule"))).collect()
}
