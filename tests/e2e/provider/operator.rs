//! The actions of a provider's administrator, at its internal address: accounts and keys. The routes for accounts are
//! the same at both providers; a new signing key is requested in two ways.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::harness::{Together, given};

/// Secret of the built-in provider's administration client in this suite.
const BUILT_IN_SECRET: &str = "built-in-suite-admin";
/// As in `tests/keycloak/realm.json`.
const KEYCLOAK_ADMIN_SECRET: &str = "keycloak-suite-admin";
const KEYCLOAK_OPERATOR: (&str, &str) = ("suite-operator", "keycloak-suite-operator");

/// The provider under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    BuiltIn,
    Keycloak,
}

/// The provider's administrator.
pub(super) struct Operator {
    pub(super) kind: Kind,
    client: Client,
    url: String,
    credentials: (&'static str, &'static str),
}

/// The platform's port offset, and the variables that configure the provider.
pub(super) fn environment() -> (Option<u16>, Vec<(&'static str, String)>) {
    let secret = ("PLATFORM_IDP_ADMIN_CLIENT_SECRET", BUILT_IN_SECRET.to_owned());
    if kind() == Kind::BuiltIn {
        return (None, vec![secret]);
    }
    let told = |name: &str| given(name).unwrap_or_else(|| panic!("tests/keycloak/run sets {name}"));
    let offset = told("E2E_PORT_OFFSET").parse().expect("an offset of ports");
    let variables = vec![
        ("PLATFORM_IDP_URL", told("E2E_KEYCLOAK_URL")),
        ("PLATFORM_IDP_ADMIN_CLIENT_ID", "platform-admin".to_owned()),
        ("PLATFORM_IDP_ADMIN_CLIENT_SECRET", KEYCLOAK_ADMIN_SECRET.to_owned()),
    ];
    (Some(offset), variables)
}

fn kind() -> Kind {
    match given("E2E_PROVIDER").as_deref() {
        None => Kind::BuiltIn,
        Some("keycloak") => Kind::Keycloak,
        Some(other) => panic!("E2E_PROVIDER: no provider is called {other}"),
    }
}

impl Operator {
    pub(super) fn of(platform: &Together) -> Self {
        // A second installation in this process is refused without effect: it is the same provider.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let kind = kind();
        let (url, credentials) = match kind {
            Kind::BuiltIn => (platform.internal(8190), ("platform-admin", BUILT_IN_SECRET)),
            Kind::Keycloak => (given("E2E_KEYCLOAK_URL").expect("it is set"), KEYCLOAK_OPERATOR),
        };
        Self { kind, client: Client::new(), url, credentials }
    }

    /// Whether a refresh token that was just replaced returns its response once more. Only the built-in provider's
    /// does.
    pub(super) fn repeats_refreshes(&self) -> bool {
        self.kind == Kind::BuiltIn
    }

    /// Name and version of the provider.
    pub(super) fn version(&self) -> String {
        match self.kind {
            Kind::BuiltIn => format!("the built-in provider {}", env!("CARGO_PKG_VERSION")),
            Kind::Keycloak => {
                format!("Keycloak {}", given("E2E_KEYCLOAK_VERSION").unwrap_or_default())
            }
        }
    }

    /// Enables or disables an account.
    pub(super) async fn set_enabled(&self, user: &str, enabled: bool) {
        let mut account = self.ask(Method::GET, &format!("/users/{user}"), None).await;
        account["enabled"] = json!(enabled);
        self.ask(Method::PUT, &format!("/users/{user}"), Some(account)).await;
    }

    /// Removes an account.
    pub(super) async fn delete(&self, user: &str) {
        self.ask(Method::DELETE, &format!("/users/{user}"), None).await;
    }

    /// Allows or forbids a client to exchange users' passwords for tokens. Only Keycloak supports that.
    pub(super) async fn let_log_in(&self, client: &str, may: bool) {
        let found = self.ask(Method::GET, &format!("/clients?clientId={client}"), None).await;
        let mut found = found[0].clone();
        found["directAccessGrantsEnabled"] = json!(may);
        let path = format!("/clients/{}", found["id"].as_str().expect("an id"));
        self.ask(Method::PUT, &path, Some(found)).await;
    }

    /// Adds a signing key, active at once; the old one continues to verify.
    pub(super) async fn rotate(&self) {
        if self.kind == Kind::BuiltIn {
            self.ask(Method::POST, "/keys/rotate", None).await;
            return;
        }
        let realm = self.ask(Method::GET, "", None).await;
        let key = json!({
            "name": "rotated", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": realm["id"],
            "config": { "priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"], "keySize": ["2048"] },
        });
        self.ask(Method::POST, "/components", Some(key)).await;
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let token = self.token().await;
        let call = self.client.request(method.clone(), format!("{}/admin/realms/platform{path}", self.url));
        let call = match &body {
            Some(body) => call.json(body),
            None => call,
        };
        let answer = call.bearer_auth(token).send().await.expect("the provider answers");
        let (status, text) = (answer.status(), answer.text().await.expect("a body"));
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Admin tokens live for a minute, so each call gets a new one.
    async fn token(&self) -> String {
        let (id, secret) = self.credentials;
        let form = [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret)];
        let address = format!("{}/realms/platform/protocol/openid-connect/token", self.url);
        let answer = self.client.post(address).form(&form).send().await.expect("the provider answers");
        let answer: Value = answer.json().await.expect("JSON");
        super::access(&answer)
    }
}
