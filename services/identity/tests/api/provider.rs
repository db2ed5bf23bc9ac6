//! A scripted provider that serves accounts, deletions and a token like Keycloak's admin routes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use testkit::{Recorded, Stub};

const ADMIN: &str = "/admin/realms/platform";
const TOKEN: &str = "/realms/platform/protocol/openid-connect/token";

/// A test's handle to the provider. Clones share it.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) stub: Stub,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    accounts: BTreeMap<String, Value>,
    /// Clients by their id in the realm: `clientId`, and the service account, if there is one.
    clients: BTreeMap<String, (String, Option<String>)>,
    deleted: Vec<String>,
    /// Pages of all accounts fail from this offset on.
    list_ends_at: Option<usize>,
    /// Whether removals are refused.
    keeps_accounts: bool,
    token: u32,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let provider = Self { stub: Stub::start().await, state: Arc::default() };
        provider.answer();
        provider
    }

    /// Answers everything again, as at the start.
    pub(crate) fn answer(&self) {
        let token = self.clone();
        self.stub.answer_with("POST", TOKEN, move |_| {
            (200, json!({ "access_token": format!("token-{}", token.state().token), "expires_in": 60 }))
        });
        self.on("/users", |state, request| {
            let is_of_all = parameter(&request.query, "enabled").is_none();
            let first = parameter(&request.query, "first").and_then(|first| first.parse().ok()).unwrap_or(0);
            match state.list_ends_at {
                Some(end) if is_of_all && first >= end => (500, json!({})),
                _ => (200, state.list(&request.query)),
            }
        });
        self.on("/users/*", |state, request| match state.accounts.get(last_segment(&request.path)) {
            Some(account) => (200, account.clone()),
            None => (404, json!({ "error": "User not found" })),
        });
        let removing = self.clone();
        self.stub.answer_with("DELETE", &format!("{ADMIN}/users/*"), move |request| {
            let mut state = removing.state();
            let id = last_segment(&request.path).to_owned();
            if state.keeps_accounts {
                return (403, json!({ "error": "unknown_error" }));
            }
            if state.accounts.remove(&id).is_none() {
                return (404, json!({ "error": "User not found" }));
            }
            state.deleted.push(id);
            (204, Value::Null)
        });
        self.on("/clients", |state, request| {
            let wanted = parameter(&request.query, "clientId");
            let rows = state.clients.iter().filter(|(_, (client, _))| Some(client) == wanted.as_ref());
            let row = |(id, (client, account)): (&String, &(String, Option<String>))| {
                json!({ "id": id, "clientId": client, "serviceAccountsEnabled": account.is_some() })
            };
            (200, rows.map(row).collect())
        });
        self.on("/clients/*", |state, request| {
            let id = request.path.trim_end_matches("/service-account-user").rsplit('/').next();
            let account = id.and_then(|id| state.clients.get(id)).and_then(|(_, account)| account.as_ref());
            match account.and_then(|account| state.accounts.get(account)) {
                Some(account) => (200, account.clone()),
                None => (400, json!({ "error": "Service account not enabled for the client" })),
            }
        });
        self.on("/admin-events", |state, request| {
            let events = state
                .deleted
                .iter()
                .map(|id| json!({ "operationType": "DELETE", "resourcePath": format!("users/{id}") }));
            (200, page(events.collect(), &request.query))
        });
    }

    /// Answers every admin route with this status.
    pub(crate) fn fail(&self, status: u16) {
        for path in ["/users", "/users/*", "/clients", "/clients/*", "/admin-events"] {
            self.stub.answer("GET", &format!("{ADMIN}{path}"), status, json!({}));
        }
    }

    /// Answers one admin route with this status.
    pub(crate) fn fail_at(&self, path: &str, status: u16) {
        self.stub.answer("GET", &format!("{ADMIN}{path}"), status, json!({}));
    }

    /// Adds or replaces an account.
    pub(crate) fn account(&self, id: &str, username: &str, enabled: bool) {
        let account = json!({
            "id": id, "username": username, "enabled": enabled, "email": format!("{username}@example.org"),
            "firstName": username, "lastName": "Example", "createdTimestamp": 1_000
        });
        self.state().accounts.insert(id.to_owned(), account);
    }

    /// Sets when an account was created; `None` if the provider does not say.
    pub(crate) fn made_at(&self, id: &str, unix_millis: Option<i64>) {
        let mut state = self.state();
        let account = state.accounts.get_mut(id).expect("it is there");
        account["createdTimestamp"] = json!(unix_millis);
    }

    /// Marks accounts as created by an operator, as the built-in provider does.
    pub(crate) fn made_by_operator(&self, id: &str) {
        self.state().accounts.get_mut(id).expect("it is there")["madeByOperator"] = json!(true);
    }

    /// Adds or replaces a client, with or without a service account.
    pub(crate) fn client(&self, id: &str, client_id: &str, account: Option<&str>) {
        self.state().clients.insert(id.to_owned(), (client_id.to_owned(), account.map(ToOwned::to_owned)));
    }

    /// Sets whether removals are refused.
    pub(crate) fn keep_accounts(&self, keep: bool) {
        self.state().keeps_accounts = keep;
    }

    /// Whether there is such an account.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.state().accounts.contains_key(id)
    }

    pub(crate) fn delete(&self, id: &str) {
        let mut state = self.state();
        state.accounts.remove(id);
        state.deleted.push(id.to_owned());
    }

    /// Makes pages of all accounts fail from an offset on; `None`: none fail.
    pub(crate) fn end_list_at(&self, first: Option<usize>) {
        self.state().list_ends_at = first;
    }

    /// Drops its deletion events, as if they were older than any request covers.
    pub(crate) fn forget_deletions(&self) {
        self.state().deleted.clear();
    }

    /// Refuses all tokens issued so far.
    pub(crate) fn rotate(&self) {
        self.state().token += 1;
    }

    fn on(&self, path: &str, answer: impl Fn(&State, &Recorded) -> (u16, Value) + Send + Sync + 'static) {
        let provider = self.clone();
        self.stub.answer_with("GET", &format!("{ADMIN}{path}"), move |request| {
            let state = provider.state();
            let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
            if bearer != Some(&format!("Bearer token-{}", state.token)) {
                return (401, json!({ "error": "HTTP 401 Unauthorized" }));
            }
            answer(&state, request)
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the provider")
    }
}

impl State {
    /// Lists omit service accounts, like Keycloak's.
    fn list(&self, query: &str) -> Value {
        let value = |name: &str| parameter(query, name);
        let fits = |account: &&Value| {
            let username = account["username"].as_str().unwrap_or_default();
            match (value("username"), value("enabled")) {
                (Some(wanted), _) => username == wanted.to_lowercase(),
                (None, Some(enabled)) => {
                    account["enabled"] == json!(enabled == "true") && !is_service(username)
                }
                (None, None) => !is_service(username),
            }
        };
        page(self.accounts.values().filter(fits).cloned().collect(), query)
    }
}

fn is_service(username: &str) -> bool {
    username.starts_with("service-account-")
}

fn page(rows: Vec<Value>, query: &str) -> Value {
    let number =
        |name: &str, default| parameter(query, name).and_then(|text| text.parse().ok()).unwrap_or(default);
    rows.into_iter().skip(number("first", 0)).take(number("max", 100)).collect()
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).next()
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
