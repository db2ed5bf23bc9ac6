//! A module under test: its own database, scripted authz and org, one member's token, and a record of its requests. The
//! checks that every module must pass, whatever it does, are in [`contract_files`], [`gates`] and [`probes`]; [`suite`]
//! turns them into tests.

pub mod contract_files;
pub mod gates;
pub mod limits;
pub mod probes;
pub mod suite;
pub mod tuples;
pub mod world;
mod world_org;

use std::time::{Duration, Instant};

use contract::Settings;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::{Api, Call, OpenApi, Reply, Stub, TestDatabase, TokenIssuer};

pub use gates::Operation;

/// Path of the decision endpoint.
pub const CAN: &str = "/internal/authz/effective-access/can";
/// The subject whose token [`ModuleApi::ask`] sends.
pub const SUBJECT: &str = "alice-subject";
/// The correlation id that [`ModuleApi::ask`] sends.
pub const CORRELATION: &str = "test-correlation-1";

/// Time limit of a start: no module takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running module. It stops when dropped.
pub struct ModuleApi {
    /// Module key.
    pub key: &'static str,
    /// The company that calls address.
    pub company: Uuid,
    /// The module.
    pub api: Api,
    /// Stands in for authz; allows everything until scripted otherwise.
    pub authz: Stub,
    /// Stands in for org; knows no members until scripted otherwise.
    pub org: Stub,
    /// Issues tokens.
    pub issuer: TokenIssuer,
    /// The database.
    pub database: TestDatabase,
    /// The module's settings.
    pub settings: Settings,
    document: OpenApi,
    #[expect(dead_code, reason = "held only for its Drop")]
    stops: DropGuard,
}

impl ModuleApi {
    /// Starts a module on a new database; `serve` reads its configuration and serves.
    pub async fn start<S, F>(key: &'static str, openapi: &str, serve: S) -> Self
    where
        S: FnOnce(Settings, TcpListener, CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start_with(key, openapi, |settings| settings, serve).await
    }

    /// Starts a module whose database is unreachable.
    pub async fn start_without_database<S, F>(key: &'static str, openapi: &str, serve: S) -> Self
    where
        S: FnOnce(Settings, TcpListener, CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        // Port 1 (tcpmux) refuses connections on every machine that runs these tests.
        let nowhere = format!("PLATFORM_{}_DB_PORT", key.to_ascii_uppercase());
        Self::start_with(key, openapi, |settings| settings.with(nowhere, "1"), serve).await
    }

    #[expect(clippy::expect_used, reason = "a test without a loopback port cannot run")]
    async fn start_with<S, F>(
        key: &'static str,
        openapi: &str,
        change: impl FnOnce(Settings) -> Settings,
        serve: S,
    ) -> Self
    where
        S: FnOnce(Settings, TcpListener, CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let (database, issuer) = (crate::database().await, TokenIssuer::start().await);
        let (authz, org) = (Stub::start().await, Stub::start().await);
        let settings = crate::settings(key, &database, &issuer)
            .with("PLATFORM_AUTHZ_BASE_URL", authz.url())
            .with("PLATFORM_ORG_BASE_URL", org.url());
        let settings = change(settings);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let api = Api::at(listener.local_addr().expect("a bound listener has an address"));
        let stop = CancellationToken::new();
        tokio::spawn(serve(settings.clone(), listener, stop.clone()));
        let (document, company) = (OpenApi::parse(openapi), Uuid::now_v7());
        let module = Self {
            key,
            company,
            api,
            authz,
            org,
            issuer,
            database,
            settings,
            document,
            stops: stop.drop_guard(),
        };
        module.decide(|_| true);
        module.authz.answer("GET", "/internal/authz/companies/*", 200, json!({ "data": { "inUse": true } }));
        module.wait_for_keys().await;
        module
    }

    /// Waits until the module has the issuer's keys: until then it refuses every bearer with 503, as it must.
    async fn wait_for_keys(&self) {
        let operations = self.document.operations();
        let first = operations.iter().find_map(|operation| operation.strip_prefix("GET /v1/"));
        // An invalid company id is refused after the bearer and before the decision, so it leaves no trace.
        let tail = first.unwrap_or_default().replace("{companyId}", "x");
        let path = format!("/api/{}/v1/{tail}", self.key);
        let begun = Instant::now();
        while self.call("GET", &path).send().await.status != 400 {
            assert!(begun.elapsed() < PATIENCE, "{path} never had the issuer's keys");
        }
    }

    /// From now on, authz answers with `allowed` of the request body.
    pub fn decide(&self, allowed: impl Fn(&Value) -> bool + Send + Sync + 'static) {
        self.authz.answer_with("POST", CAN, move |request| {
            let allowed = allowed(&request.body);
            let reason = if allowed { "ALLOWED" } else { "ENGINE_DENIED" };
            (200, json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } }))
        });
    }

    /// From now on, authz allows exactly the requests for these relations.
    pub fn hold(&self, relations: &'static [&'static str]) {
        self.decide(move |question| {
            question
                .get("relation")
                .and_then(Value::as_str)
                .is_some_and(|relation| relations.contains(&relation))
        });
    }

    /// From now on, the caller is this active member, with these positions and groups.
    pub fn member(&self, member: Uuid, positions: &[Uuid], groups: &[Uuid]) {
        self.answer_context(
            200,
            json!({ "data": { "isMember": true, "isActive": true, "memberId": member, "displayName": "Alice",
                "email": null, "positionIds": positions, "groupIds": groups } }),
        );
    }

    /// From now on, org answers this when asked for the caller's context.
    pub fn answer_context(&self, status: u16, body: Value) {
        let path = format!("/internal/org/companies/{}/members/by-kcsub/{SUBJECT}/context", self.company);
        self.org.answer("GET", &path, status, body);
    }

    /// The bodies of all decision requests so far.
    #[must_use]
    pub fn questions(&self) -> Vec<Value> {
        self.authz.requests().into_iter().map(|request| request.body).collect()
    }

    /// The expected body of one decision request.
    #[must_use]
    pub fn question(&self, feature: &str, relation: &str, operator: bool) -> Value {
        let mut question = json!({
            "featureKey": feature, "scope": "company", "moduleKey": self.key, "companyId": self.company,
            "object": { "type": "company_module", "id": format!("{}/{}", self.company, self.key) },
            "relation": relation, "correlationId": CORRELATION, "allowPlatformOperatorCompanyScope": operator,
        });
        if let (true, Some(members)) = (operator, question.as_object_mut()) {
            members.insert("requiredPlatformRole".to_owned(), json!("platform-superadmin"));
        }
        question
    }

    /// The expected body of a decision request whose denial narrows a response.
    #[must_use]
    pub fn probe(&self, feature: &str, relation: &str, operator: bool) -> Value {
        let mut question = self.question(feature, relation, operator);
        if let Some(members) = question.as_object_mut() {
            members.insert("probe".to_owned(), json!(true));
        }
        question
    }

    /// `/api/<key>/v1/companies/<company><tail>`.
    #[must_use]
    pub fn path(&self, company: impl std::fmt::Display, tail: &str) -> String {
        format!("/api/{}/v1/companies/{company}{tail}", self.key)
    }

    /// Sends a request as the one member, and checks that the document allows the response.
    pub async fn ask(&self, method: &str, tail: &str, body: Option<Value>) -> Reply {
        let call = self.call(method, &self.path(self.company, tail));
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        self.send(method, tail, call).await
    }

    /// A request as the one member, to modify before sending.
    ///
    /// # Panics
    /// `method` is not a valid method.
    #[expect(clippy::expect_used, reason = "the methods of a test are constants")]
    pub fn call(&self, method: &str, path: &str) -> Call {
        let method = method.parse().expect("a method");
        let call = self.api.call(method, path).header("x-correlation-id", CORRELATION);
        call.bearer(&self.issuer.issue(SUBJECT))
    }

    /// Asks as the bearer of this token, with a body and an `Idempotency-Key` where they are given, and checks that the document
    /// allows the answer.
    ///
    /// # Panics
    /// `method` is none.
    #[expect(clippy::expect_used, reason = "the methods of a test are constants")]
    pub async fn ask_as(
        &self,
        token: &str,
        method: &str,
        tail: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Reply {
        let call =
            self.api.call(method.parse().expect("a method"), self.path(self.company, tail)).bearer(token);
        let call = body.into_iter().fold(call, Call::json);
        let call = key.into_iter().fold(call, |call, key| call.header("idempotency-key", key));
        self.send(method, tail, call).await
    }

    /// Sends a call to `method …<tail>` and checks that the document allows the response.
    pub async fn send(&self, method: &str, tail: &str, call: Call) -> Reply {
        let reply = call.send().await;
        self.document.check(method, &format!("/v1/companies/{}{tail}", self.company), &reply);
        reply
    }

    /// The module's OpenAPI document.
    #[must_use]
    pub const fn document(&self) -> &OpenApi {
        &self.document
    }

    /// Runs one or more statements as the superuser.
    ///
    /// # Panics
    /// A statement fails.
    #[expect(clippy::expect_used, reason = "a test that cannot prepare its rows has failed")]
    pub async fn execute(&self, sql: String) {
        // Statements in tests consist of constants and ids that the test generated.
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.database.owner_pool()).await;
        done.expect("the statement is right");
    }

    /// The audit rows so far, oldest first: `{companyId, actor, action, subject, correlationId, payload}`.
    pub async fn audit(&self) -> Vec<Value> {
        let columns = "'companyId', company_id, 'actor', actor, 'action', action, 'subject', subject, \
                       'correlationId', correlation_id, 'payload', payload";
        self.database
            .rows(format!(
                "SELECT jsonb_build_object({columns}) FROM audit.{}__events ORDER BY seq",
                self.key
            ))
            .await
    }

    /// Every row of the module's schema and of its audit table, as JSON: equal before and after means that nothing was
    /// written.
    pub async fn contents(&self) -> Vec<Value> {
        self.database.contents(self.key).await
    }
}
