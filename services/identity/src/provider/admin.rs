//! Queries: one account, accounts by name, all or the disabled accounts, and deletions.

use std::time::Duration;

use contract::Clock;
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use service::client::{Answer, Call, Client, Unavailable, encode_segment};

use super::account::{Account, Deletion};
use super::token::AdminToken;

/// Time limit of one exchange with the provider; shorter than the budget of the request that waits for it.
const EXCHANGE_BUDGET: Duration = Duration::from_secs(2);
/// Rows per page: some 200 KB, far below the limit of a response's size.
pub(crate) const PAGE: usize = 500;
/// Most pages of one list: ten million rows. A longer list is taken for one that does not end.
const MAX_PAGES: usize = 20_000;

/// Access to the provider.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its internal address.
    pub base_url: String,
    /// Its realm.
    pub realm: String,
    /// A client that may read users and admin events.
    pub client_id: String,
    /// Its secret.
    pub client_secret: String,
}

/// A client of the provider's admin routes. Cheap to clone; clones share the connection pool and the token.
#[derive(Clone)]
pub struct Provider {
    client: Client,
    admin: String,
    token: AdminToken,
}

impl Provider {
    /// Creates a client of one provider.
    #[must_use]
    pub fn new(config: ProviderConfig, clock: Clock) -> Self {
        let client = Client::new("idp", &config.base_url, EXCHANGE_BUDGET);
        let realm = encode_segment(&config.realm);
        let path = format!("/realms/{realm}/protocol/openid-connect/token");
        let token = AdminToken::new(client.clone(), path, config.client_id, config.client_secret, clock);
        Self { client, admin: format!("/admin/realms/{realm}"), token }
    }

    /// The account with this id; `None` if there is none.
    ///
    /// # Errors
    /// The provider answered with anything but the account or 404.
    pub async fn account(&self, id: &str) -> Result<Option<Account>, Unavailable> {
        let answer = self.ask(&format!("/users/{}", encode_segment(id))).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.read(&answer).map(Some)
    }

    /// The account with this login name, whatever its case, as the provider compares them.
    ///
    /// # Errors
    /// The provider did not answer.
    pub async fn account_named(&self, name: &str) -> Result<Option<Account>, Unavailable> {
        let path = format!("/users?username={}&exact=true", encode_segment(name));
        let found: Vec<Account> = self.read(&self.ask(&path).await?)?;
        Ok(found.into_iter().find(|account| account.username.to_lowercase() == name.to_lowercase()))
    }

    /// A page of all accounts except service accounts, after the first `first`. A page that is not full is the last.
    ///
    /// # Errors
    /// The provider did not answer, or the list does not end.
    pub async fn accounts_after(&self, first: usize) -> Result<Vec<Account>, Unavailable> {
        const PATH: &str = "/users?briefRepresentation=true";
        if first >= MAX_PAGES * PAGE {
            return Err(self.client.unavailable(format!("more than {MAX_PAGES} pages of {PATH}")));
        }
        self.read(&self.ask(&format!("{PATH}&first={first}&max={PAGE}")).await?)
    }

    /// The disabled accounts, except service accounts.
    ///
    /// # Errors
    /// The provider did not answer for a page, so the list is incomplete.
    pub async fn disabled_accounts(&self) -> Result<Vec<Account>, Unavailable> {
        let listed: Vec<Account> = self.pages("/users?enabled=false&briefRepresentation=true").await?;
        if listed.iter().any(|account| account.enabled) {
            return Err(self
                .client
                .unavailable("the list of disabled accounts contains an enabled one".to_owned()));
        }
        Ok(listed)
    }

    /// Ids of the accounts deleted since `unix_millis`, by the provider's clock.
    ///
    /// # Errors
    /// As [`Self::disabled_accounts`].
    pub async fn deleted_since(&self, unix_millis: i64) -> Result<Vec<String>, Unavailable> {
        let path = format!("/admin-events?operationTypes=DELETE&resourceTypes=USER&dateFrom={unix_millis}");
        let events: Vec<Deletion> = self.pages(&path).await?;
        Ok(events.iter().filter_map(Deletion::account_id).map(ToOwned::to_owned).collect())
    }

    pub(super) async fn pages<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Unavailable> {
        let mut all = Vec::new();
        for page in 0..MAX_PAGES {
            let first = page * PAGE;
            let rows: Vec<T> = self.read(&self.ask(&format!("{path}&first={first}&max={PAGE}")).await?)?;
            let is_last = rows.len() < PAGE;
            all.extend(rows);
            if is_last {
                return Ok(all);
            }
        }
        Err(self.client.unavailable(format!("more than {MAX_PAGES} pages of {path}")))
    }

    /// Gets an admin route.
    pub(super) async fn ask(&self, path: &str) -> Result<Answer, Unavailable> {
        self.exchange(&Method::GET, path, None).await
    }

    /// Calls an admin route. Retries once with a new token if the provider refuses it, because its keys or sessions
    /// changed.
    pub(super) async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Unavailable> {
        let token = self.token.current().await?;
        let answer = self.exchange_with(&token, method, path, body).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        self.token.forget(&token).await;
        let token = self.token.current().await?;
        self.exchange_with(&token, method, path, body).await
    }

    async fn exchange_with(
        &self,
        token: &str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Unavailable> {
        let call = Call::new(method.clone(), format!("{}{path}", self.admin)).bearer(token);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        self.client.send(call).await
    }

    /// Builds the error for a failure of the provider.
    pub(crate) fn failed(&self, reason: String) -> Unavailable {
        self.client.unavailable(reason)
    }

    pub(super) fn read<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Unavailable> {
        if answer.status != StatusCode::OK {
            return Err(self.client.unavailable(format!("status {}", answer.status)));
        }
        self.client.json(answer)
    }
}
