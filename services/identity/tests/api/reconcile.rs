//! Reconciling a Keycloak whose administration routes are scripted: a realm and clients that can be read, added and
//! changed.

use std::sync::{Arc, Mutex, MutexGuard};

use contract::{Clock, Settings};
use identity::{App, Config, reconcile};
use serde_json::{Value, json};
use service::Core;
use testkit::{Recorded, Stub, TestDatabase, TokenIssuer, until};
use tokio_util::sync::{CancellationToken, DropGuard};

const ADMIN: &str = "/admin/realms/platform";

/// A Keycloak with one realm.
#[derive(Clone)]
struct Keycloak {
    stub: Stub,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    realm: Value,
    clients: Vec<Value>,
}

impl Keycloak {
    async fn start() -> Self {
        let realm = json!({ "realm": "platform", "accessTokenLifespan": 60, "displayName": "Ours" });
        let state =
            State { realm, clients: vec![json!({ "id": "1", "clientId": "account", "enabled": true })] };
        let keycloak = Self { stub: Stub::start().await, state: Arc::new(Mutex::new(state)) };
        keycloak.script();
        keycloak
    }

    fn script(&self) {
        let token = json!({ "access_token": "token", "expires_in": 60 });
        self.stub.answer("POST", "/realms/platform/protocol/openid-connect/token", 200, token);
        self.on("GET", "", |state, _| (200, state.realm.clone()));
        self.on("PUT", "", |state, request| {
            merge(&mut state.realm, &request.body);
            (204, Value::Null)
        });
        self.on("GET", "/clients", |state, _| (200, json!(state.clients)));
        self.on("POST", "/clients", |state, request| state.add(request.body.clone()));
        self.on("PUT", "/clients/*", |state, request| {
            let (path, mapper) = mapper_of(&request.path);
            let Some(client) = state.client(path) else {
                return (404, json!({ "error": "Could not find client" }));
            };
            if mapper.is_some() {
                client["protocolMappers"] = json!([request.body]);
            } else {
                *client = request.body.clone();
            }
            (204, Value::Null)
        });
        self.on("POST", "/clients/*", |state, request| {
            let (path, mapper) = mapper_of(&request.path);
            assert_eq!(mapper, Some(""), "nothing else is added to a client");
            let client = state.client(path).expect("the client is there");
            let mut mapper = request.body.clone();
            mapper["id"] = json!("m");
            client["protocolMappers"] = json!([mapper]);
            (201, Value::Null)
        });
    }

    fn on(
        &self,
        method: &str,
        path: &str,
        answer: impl Fn(&mut State, &Recorded) -> (u16, Value) + Send + Sync + 'static,
    ) {
        let keycloak = self.clone();
        self.stub.answer_with(method, &format!("{ADMIN}{path}"), move |request| {
            let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
            if bearer != Some("Bearer token") {
                return (401, json!({ "error": "HTTP 401 Unauthorized" }));
            }
            answer(&mut keycloak.state(), request)
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the provider")
    }

    fn client(&self, client_id: &str) -> Value {
        let state = self.state();
        let found = state.clients.iter().find(|client| client["clientId"] == client_id);
        found.cloned().unwrap_or_default()
    }

    /// Number of requests that changed something or tried to.
    fn writes(&self) -> usize {
        let requests = self.stub.requests();
        requests.iter().filter(|request| request.path.starts_with(ADMIN) && request.method != "GET").count()
    }
}

impl State {
    fn add(&mut self, mut client: Value) -> (u16, Value) {
        if self.clients.iter().any(|there| there["clientId"] == client["clientId"]) {
            return (409, json!({ "errorMessage": "Client already exists" }));
        }
        client["id"] = json!(format!("c{}", self.clients.len()));
        for mapper in client["protocolMappers"].as_array_mut().into_iter().flatten() {
            mapper["id"] = json!("m");
        }
        if client["secret"].is_null() && client["publicClient"] == json!(false) {
            client["secret"] = json!("made by the provider");
        }
        // The provider lists addresses in its own order.
        if let Some(uris) = client["redirectUris"].as_array_mut() {
            uris.reverse();
        }
        self.clients.push(client);
        (201, Value::Null)
    }

    fn client(&mut self, path: &str) -> Option<&mut Value> {
        let id = path.rsplit('/').next().unwrap_or_default();
        self.clients.iter_mut().find(|client| client["id"] == id)
    }
}

/// Splits a path into the client's path and the mapper.
fn mapper_of(path: &str) -> (&str, Option<&str>) {
    match path.split_once("/protocol-mappers/models") {
        Some((client, mapper)) => (client, Some(mapper)),
        None => (path, None),
    }
}

fn merge(into: &mut Value, from: &Value) {
    for (name, value) in from.as_object().expect("an object") {
        into[name] = value.clone();
    }
}

/// Fixture of one start of identity.
struct Start {
    app: App,
    target: Option<reconcile::Reconcile>,
    database: TestDatabase,
    _stop: DropGuard,
}

impl Start {
    async fn beside(keycloak: &Keycloak, change: impl FnOnce(Settings) -> Settings) -> Self {
        let (database, issuer) = (testkit::database().await, TokenIssuer::start().await);
        let config = Config::read(&change(settings(keycloak, &database, &issuer))).expect("a configuration");
        let stop = CancellationToken::new();
        let core = Core::start(&config.service, Clock::system(), &stop).expect("metrics");
        let app = App::new(core, &config);
        Self { app, target: config.reconcile, database, _stop: stop.drop_guard() }
    }

    async fn run(&self) -> Result<usize, String> {
        let target = self.target.as_ref().expect("it reconciles");
        reconcile::once(&self.app, target).await.map_err(|error| error.to_string())
    }

    /// The changes of every audit row.
    async fn told(&self) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT jsonb_array_elements_text(payload->'changes') FROM audit.identity__events \
             WHERE action = 'provider.reconciled' AND actor = 'system:reconcile' AND subject = 'realm:platform'",
        )
        .fetch_all(&self.database.owner_pool())
        .await
        .expect("the audit table")
    }
}

fn settings(keycloak: &Keycloak, database: &TestDatabase, issuer: &TokenIssuer) -> Settings {
    testkit::settings("identity", database, issuer)
        .with("PLATFORM_IDP_URL", keycloak.stub.url())
        .with("PLATFORM_IDP_ADMIN_CLIENT_ID", "platform-admin")
        .with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "secret")
        .with("PLATFORM_DOMAIN", "platform.example")
        .with("PLATFORM_EXTRA_ORIGINS", "https://app.example")
        .with("PLATFORM_SERVICE_CLIENTS", "crm-backend,erp")
        .with("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", "the secret of crm")
}

#[tokio::test]
async fn an_empty_realm_gets_its_settings_and_clients_once() {
    let keycloak = Keycloak::start().await;
    let start = Start::beside(&keycloak, |settings| settings).await;
    assert_eq!(start.run().await, Ok(8), "five settings of the realm and three clients");
    let realm = keycloak.state().realm.clone();
    assert_eq!(
        realm,
        json!({
            "realm": "platform", "displayName": "Ours", "accessTokenLifespan": 300, "ssoSessionIdleTimeout": 1_800,
            "revokeRefreshToken": true, "refreshTokenMaxReuse": 0, "adminEventsEnabled": true,
        })
    );
    let frontend = keycloak.client("platform-frontend");
    assert_eq!(frontend["webOrigins"], json!(["https://platform.example", "https://app.example"]));
    let mut uris: Vec<&str> =
        frontend["redirectUris"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    uris.sort_unstable();
    assert_eq!(
        uris,
        [
            "https://app.example/",
            "https://app.example/callback",
            "https://platform.example/",
            "https://platform.example/callback"
        ]
    );
    assert_eq!(frontend["attributes"]["pkce.code.challenge.method"], "S256");
    assert_eq!(
        (&frontend["publicClient"], &frontend["directAccessGrantsEnabled"]),
        (&json!(true), &json!(false))
    );
    let crm = keycloak.client("crm-backend");
    assert_eq!((&crm["serviceAccountsEnabled"], &crm["standardFlowEnabled"]), (&json!(true), &json!(false)));
    assert_eq!(crm["secret"], "the secret of crm");
    assert_eq!(keycloak.client("erp")["secret"], "made by the provider");
    for client in [&frontend, &crm, &keycloak.client("erp")] {
        let mapper = &client["protocolMappers"][0];
        assert_eq!(mapper["protocolMapper"], "oidc-audience-mapper");
        assert_eq!(mapper["config"]["included.custom.audience"], "platform-api");
    }
    let told = start.told().await;
    assert_eq!(told.len(), 8);
    assert!(told.contains(&"realm platform: accessTokenLifespan: 60 -> 300".to_owned()), "{told:?}");
    assert!(told.iter().all(|line| !line.contains("the secret of crm")), "{told:?}");

    let writes = keycloak.writes();
    assert_eq!(start.run().await, Ok(0), "a second run finds nothing to do");
    assert_eq!((keycloak.writes(), start.told().await.len()), (writes, 8));
}

#[tokio::test]
async fn what_was_changed_by_hand_is_put_right_and_the_rest_is_left() {
    let keycloak = Keycloak::start().await;
    let start = Start::beside(&keycloak, |settings| settings).await;
    start.run().await.expect("reconciled");
    let account = keycloak.client("account");
    for client in &mut keycloak.state().clients {
        match client["clientId"].as_str() {
            Some("platform-frontend") => {
                client["redirectUris"] = json!(["*"]);
                client["description"] = json!("kept");
                client["attributes"]["theirs"] = json!("kept");
                client["protocolMappers"][0]["config"]["included.custom.audience"] = json!("other");
            }
            Some("crm-backend") => client["protocolMappers"] = json!([{ "id": "x", "name": "theirs" }]),
            Some("erp") => client["publicClient"] = json!(true),
            _ => {}
        }
    }
    assert_eq!(start.run().await, Ok(4));
    let frontend = keycloak.client("platform-frontend");
    assert_eq!(frontend["redirectUris"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        (&frontend["description"], &frontend["attributes"]["theirs"]),
        (&json!("kept"), &json!("kept"))
    );
    assert_eq!(frontend["protocolMappers"][0]["config"]["included.custom.audience"], "platform-api");
    assert_eq!(keycloak.client("crm-backend")["protocolMappers"][0]["name"], "platform-audience");
    assert_eq!(keycloak.client("erp")["publicClient"], false);
    assert_eq!(keycloak.client("account"), account);
    assert!(keycloak.stub.requests().iter().all(|request| request.method != "DELETE"));
}

#[tokio::test]
async fn an_undeclared_client_is_disabled_if_the_reconcile_made_it() {
    let keycloak = Keycloak::start().await;
    let by_hand = json!({ "id": "h", "clientId": "erp", "enabled": true, "publicClient": false });
    keycloak.state().clients.push(by_hand);
    Start::beside(&keycloak, |settings| settings).await.run().await.expect("reconciled");
    let fewer = Start::beside(&keycloak, |settings| settings.with("PLATFORM_SERVICE_CLIENTS", "")).await;
    assert_eq!(fewer.run().await, Ok(1));
    assert_eq!(fewer.told().await, ["client crm-backend: enabled: true -> false"]);
    assert_eq!(keycloak.client("erp")["enabled"], true, "someone else created it");
    assert_eq!(fewer.run().await, Ok(0));
    let again = Start::beside(&keycloak, |settings| settings).await;
    assert_eq!(again.run().await, Ok(1), "declared again, it is enabled again");
}

#[tokio::test]
async fn a_refusal_ends_the_run_and_what_was_done_before_it_is_told() {
    let keycloak = Keycloak::start().await;
    let start = Start::beside(&keycloak, |settings| settings).await;
    keycloak.stub.answer("POST", &format!("{ADMIN}/clients"), 403, json!({ "error": "HTTP 403 Forbidden" }));
    let error = start.run().await.expect_err("refused");
    assert!(error.contains("idp"), "{error}");
    assert_eq!(start.told().await.len(), 5, "the settings of the realm");
    keycloak.stub.answer("GET", ADMIN, 404, json!({ "error": "Realm not found." }));
    start.run().await.expect_err("there is no realm");
    keycloak.script();
    assert_eq!(start.run().await, Ok(3));
}

#[tokio::test]
async fn a_start_goes_on_without_the_provider_and_reconciles_when_it_answers() {
    let keycloak = Keycloak::start().await;
    keycloak.stub.answer("GET", ADMIN, 503, json!({}));
    let (database, issuer) = (testkit::database().await, TokenIssuer::start().await);
    let config = Config::read(&settings(&keycloak, &database, &issuer)).expect("a configuration");
    let stop = CancellationToken::new();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let api = testkit::Api::at(listener.local_addr().expect("bound"));
    tokio::spawn(identity::serve(config, listener, stop.clone()));
    let tries = || keycloak.stub.requests().iter().filter(|request| request.path == ADMIN).count();
    until("some tries", || async { tries() > 2 }).await;
    assert_eq!(api.get("/ready").send().await.status, 200);
    assert_eq!(keycloak.writes(), 0);
    keycloak.script();
    until("reconciled", || async { keycloak.client("erp")["enabled"] == json!(true) }).await;
    stop.cancel();
}

#[tokio::test]
async fn only_a_real_provider_that_may_be_touched_is_reconciled() {
    let keycloak = Keycloak::start().await;
    let off = Start::beside(&keycloak, |settings| settings.with("PLATFORM_IDP_RECONCILE", "off")).await;
    assert!(off.target.is_none());
    let (database, issuer) = (testkit::database().await, TokenIssuer::start().await);
    let built_in = testkit::settings("identity", &database, &issuer)
        .with("PLATFORM_IDP_ADMIN_CLIENT_ID", "platform-admin")
        .with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "secret");
    assert!(Config::read(&built_in).expect("a configuration").reconcile.is_none());
    let bad = settings(&keycloak, &database, &issuer)
        .with("PLATFORM_IDP_RECONCILE", "maybe")
        .with("PLATFORM_SERVICE_CLIENTS", "platform-admin,A");
    let problems = Config::read(&bad).expect_err("problems").to_string();
    assert!(problems.contains("PLATFORM_IDP_RECONCILE"), "{problems}");
    let bad = settings(&keycloak, &database, &issuer)
        .with("PLATFORM_SERVICE_CLIENTS", "platform-admin,platform-frontend,A,crm-backend")
        .with("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", "short");
    let problems = Config::read(&bad).expect_err("problems").to_string();
    for name in ["\"platform-admin\"", "\"platform-frontend\"", "\"A\"", "_CRM_BACKEND"] {
        assert!(problems.contains(name), "{name} in\n{problems}");
    }
}
