//! A client's service account. It is looked up by the client, never by the account's name: with self-registration,
//! anyone can take a name.

use http::StatusCode;
use serde::Deserialize;
use service::client::{Unavailable, encode_segment};

use super::{Account, Provider};

/// A client of the realm. A response without `id` or `clientId` is an error.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    id: String,
    #[serde(rename = "clientId")]
    name: String,
    #[serde(default)]
    service_accounts_enabled: bool,
}

impl Provider {
    /// The service account of the client `client_id`; `None` if there is no such client or it has no service account.
    ///
    /// # Errors
    /// The provider did not answer.
    pub async fn service_account(&self, client_id: &str) -> Result<Option<Account>, Unavailable> {
        let path = format!("/clients?clientId={}", encode_segment(client_id));
        let clients: Vec<Client> = self.read(&self.ask(&path).await?)?;
        let is_wanted = |client: &Client| client.name == client_id && client.service_accounts_enabled;
        let Some(client) = clients.into_iter().find(is_wanted) else { return Ok(None) };
        let path = format!("/clients/{}/service-account-user", encode_segment(&client.id));
        let answer = self.ask(&path).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.read(&answer).map(Some)
    }
}
