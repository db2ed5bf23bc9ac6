//! The provider under test, and the steps of a browser's login.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::{Clock, Settings};
use idp::{App, Config};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use testkit::{Api, Call, OpenApi, Reply, TestDatabase};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const BASE: &str = "https://localhost:8443";
pub(crate) const ISSUER: &str = "https://localhost:8443/realms/platform";
pub(crate) const CALLBACK: &str = "https://localhost:8443/callback";
pub(crate) const OIDC: &str = "/realms/platform/protocol/openid-connect";
pub(crate) const ADMIN_SECRET: &str = "administration-secret";
pub(crate) const OPERATOR: &str = "the-credential-of-the-operators";
pub(crate) const CRM_SECRET: &str = "crm secret: a+b&c=d%";
/// The time of the clock until a test moves it.
pub(crate) const NOW: i64 = 1_790_000_000;
/// Forty-three characters, the shortest allowed verifier.
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// A running provider.
pub(crate) struct Provider {
    pub(crate) api: Api,
    pub(crate) clock: Clock,
    pub(crate) database: TestDatabase,
    settings: Settings,
    document: OpenApi,
    stop: DropGuard,
    serving: JoinHandle<()>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let database = testkit::database().await;
        let settings = settings(&database);
        Self::on(database, settings, Clock::standing_at(NOW)).await
    }

    async fn on(database: TestDatabase, settings: Settings, clock: Clock) -> Self {
        let provider = Self::launch(database, settings, clock).await;
        // The connection waits in the listener's queue until the provider is ready.
        assert_eq!(provider.get("/ready").await.status, 200);
        provider
    }

    /// Starts it without waiting.
    pub(crate) async fn launch(database: TestDatabase, settings: Settings, clock: Clock) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let api = Api::at(listener.local_addr().expect("a bound listener has an address"));
        let stop = CancellationToken::new();
        let config = Config::read(&settings).expect("the settings of the test are right");
        let serving = tokio::spawn({
            let (clock, stop) = (clock.clone(), stop.clone());
            async move { idp::serve_at(config, clock, listener, stop).await.expect("it serves") }
        });
        let document = OpenApi::parse(idp::OPENAPI);
        Self { api, clock, database, settings, document, stop: stop.drop_guard(), serving }
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.disarm().cancel();
        self.serving.await.expect("it ends without a panic");
    }

    /// Restarts it on the same database with changed settings.
    pub(crate) async fn restart(self, change: impl FnOnce(Settings) -> Settings) -> Self {
        self.stop.disarm().cancel();
        self.serving.await.expect("it ends without a panic");
        Self::on(self.database, change(self.settings), self.clock).await
    }

    /// Returns why a start with changed settings is refused.
    pub(crate) async fn refused(&self, change: impl FnOnce(Settings) -> Settings) -> String {
        let config =
            Config::read(&change(self.settings.clone())).expect("the settings of the test are right");
        let started = App::start(&config, self.clock.clone(), &CancellationToken::new()).await;
        started.err().expect("it does not start").to_string()
    }

    /// Sends a request and checks the response against the document.
    pub(crate) async fn send(&self, method: &str, path: &str, change: impl FnOnce(Call) -> Call) -> Reply {
        let call = self.api.call(method.parse().expect("a method"), path);
        let reply = change(call).send().await;
        self.document.check(method, path, &reply);
        reply
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, |call| call).await
    }

    pub(crate) async fn post_form(&self, path: &str, pairs: &[(&str, &str)]) -> Reply {
        self.send("POST", path, |call| with_form(call, pairs)).await
    }

    pub(crate) async fn token(&self, pairs: &[(&str, &str)]) -> Reply {
        self.post_form(&format!("{OIDC}/token"), pairs).await
    }

    /// Opens the login form of a request.
    pub(crate) async fn open(&self, changes: &[(&str, &str)]) -> Reply {
        self.get(&format!("{OIDC}/auth?{}", auth_query(changes))).await
    }

    /// Fills in the form that `page` shows, in the same browser.
    pub(crate) async fn submit(&self, page: &Reply, username: &str, password: &str) -> Reply {
        let (action, cookie) = (action_of(page), cookie_of(page));
        self.submit_to(&action, &cookie, username, password).await
    }

    pub(crate) async fn submit_to(
        &self,
        action: &str,
        cookie: &str,
        username: &str,
        password: &str,
    ) -> Reply {
        let form = [("username", username), ("password", password), ("credentialId", "")];
        self.send("POST", action, |call| with_form(call.header("cookie", cookie), &form)).await
    }

    /// Logs in and returns the parameters of the redirect.
    pub(crate) async fn login(&self, username: &str, password: &str) -> HashMap<String, String> {
        let page = self.open(&[]).await;
        let reply = self.submit(&page, username, password).await;
        assert_eq!(reply.status, 302, "{}", reply.text);
        answer_of(&reply, &format!("{CALLBACK}?"))
    }

    pub(crate) async fn redeem(&self, code: &str, changes: &[(&str, &str)]) -> Reply {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", "platform-frontend"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        apply(&mut form, changes);
        self.token(&form).await
    }

    /// The tokens of a fresh login.
    pub(crate) async fn tokens(&self, username: &str) -> Value {
        let code = self.login(username, username).await["code"].clone();
        let reply = self.redeem(&code, &[]).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body
    }

    pub(crate) async fn refresh(&self, tokens: &Value) -> Reply {
        let refresh_token = tokens["refresh_token"].as_str().expect("a refresh token");
        self.token(&[
            ("grant_type", "refresh_token"),
            ("client_id", "platform-frontend"),
            ("refresh_token", refresh_token),
        ])
        .await
    }

    /// A client-credentials token.
    pub(crate) async fn client_token(&self, client_id: &str, secret: &str) -> String {
        let form =
            [("grant_type", "client_credentials"), ("client_id", client_id), ("client_secret", secret)];
        let reply = self.token(&form).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body["access_token"].as_str().expect("a token").to_owned()
    }

    /// `action subject` of every audit row, oldest first.
    pub(crate) async fn audit(&self) -> Vec<(String, String, String)> {
        sqlx::query_as("SELECT actor, action, subject FROM audit.idp__events ORDER BY seq")
            .fetch_all(&self.database.owner_pool())
            .await
            .expect("the audit table")
    }

    /// Failed logins that are not yet in the audit table: the count of each reason, at every address.
    pub(crate) async fn failures(&self, reason: &str) -> i64 {
        sqlx::query_scalar(
            "SELECT COALESCE(sum(counted::integer), 0) FROM idp.failed_logins, jsonb_each_text(reasons) AS r(reason, counted) \
             WHERE $1 = '' OR reason = $1",
        )
        .bind(reason)
        .fetch_one(&self.database.owner_pool())
        .await
        .expect("the counts")
    }

    /// Every row of every table, as text.
    pub(crate) async fn everything(&self) -> String {
        let pool = self.database.owner_pool();
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT table_schema || '.' || table_name FROM information_schema.tables \
             WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')",
        )
        .fetch_all(&pool)
        .await
        .expect("the tables");
        let mut texts = Vec::new();
        for table in tables {
            let rows = format!("SELECT t::text FROM {table} t");
            let rows: Vec<String> =
                sqlx::query_scalar(sqlx::AssertSqlSafe(rows)).fetch_all(&pool).await.expect("its rows");
            texts.extend(rows);
        }
        texts.join("\n")
    }

    /// Every audit row as text.
    pub(crate) async fn everything_audited(&self) -> String {
        let rows: Vec<String> = sqlx::query_scalar("SELECT e::text FROM audit.idp__events e ORDER BY seq")
            .fetch_all(&self.database.owner_pool())
            .await
            .expect("the audit table");
        rows.join("\n")
    }

    /// A second provider on the same database, for a test that calls its steps.
    pub(crate) async fn twin(&self, change: impl FnOnce(Settings) -> Settings) -> (App, DropGuard) {
        let config =
            Config::read(&change(self.settings.clone())).expect("the settings of the test are right");
        let stop = CancellationToken::new();
        let app = App::start(&config, self.clock.clone(), &stop).await.expect("it starts");
        (app.expect("it was not stopped"), stop.drop_guard())
    }

    /// Number of audit rows with an action.
    pub(crate) async fn audited(&self, action: &str) -> usize {
        self.audit().await.iter().filter(|(_, found, _)| found == action).count()
    }
}

/// The settings of the tests: two users, one service client, the administration client.
pub(crate) fn settings(database: &TestDatabase) -> Settings {
    database
        .settings("idp")
        .with("PLATFORM_DEV_USERS", "alice:alice,bob:bob")
        .with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", ADMIN_SECRET)
        .with("PLATFORM_OPERATOR_TOKEN", OPERATOR)
        .with("PLATFORM_SERVICE_CLIENTS", "crm-backend")
        .with("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", CRM_SECRET)
}

pub(crate) fn with_form(call: Call, pairs: &[(&str, &str)]) -> Call {
    let body = serde_urlencoded::to_string(pairs).expect("pairs of texts");
    call.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// The query of a valid authorization request, with changes; an empty value removes a parameter.
pub(crate) fn auth_query(changes: &[(&str, &str)]) -> String {
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, VERIFIER.as_bytes()));
    let mut pairs = vec![
        ("client_id", "platform-frontend"),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "openid"),
        ("state", "a state & more"),
        ("nonce", "a nonce"),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
    ];
    apply(&mut pairs, changes);
    serde_urlencoded::to_string(pairs).expect("pairs of texts")
}

fn apply<'a>(pairs: &mut Vec<(&'a str, &'a str)>, changes: &[(&'a str, &'a str)]) {
    for (name, value) in changes {
        pairs.retain(|(known, _)| known != name);
        if !value.is_empty() {
            pairs.push((name, value));
        }
    }
}

/// Path and query that the form posts to.
pub(crate) fn action_of(page: &Reply) -> String {
    assert_eq!(page.status, 200, "{}", page.text);
    let form = page.text.split("<form id=\"kc-form-login\" action=\"").nth(1).expect("the login form");
    let action = form.split('"').next().expect("its action").replace("&amp;", "&");
    action.strip_prefix(BASE).expect("an address on the public base").to_owned()
}

/// The cookie that a page sets, in the form in which a browser returns it.
pub(crate) fn cookie_of(page: &Reply) -> String {
    page.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
}

/// The parameters of a redirect after `prefix`.
pub(crate) fn answer_of(reply: &Reply, prefix: &str) -> HashMap<String, String> {
    let location = reply.header("location");
    let answer = location.strip_prefix(prefix).unwrap_or_else(|| panic!("{location} is not on {prefix}"));
    serde_urlencoded::from_str(answer).expect("form data")
}

/// The claims of a JWT, unverified.
pub(crate) fn claims_of(token: &Value) -> Value {
    let payload = token.as_str().and_then(|token| token.split('.').nth(1)).expect("a JWT");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("Base64")).expect("JSON")
}

/// `error` and `error_description` of the token route.
pub(crate) fn oauth_error(reply: &Reply) -> (u16, String, String) {
    let text = |name: &str| reply.body[name].as_str().unwrap_or_default().to_owned();
    (reply.status, text("error"), text("error_description"))
}

pub(crate) fn expected(status: u16, error: &str, description: &str) -> (u16, String, String) {
    (status, error.to_owned(), description.to_owned())
}
