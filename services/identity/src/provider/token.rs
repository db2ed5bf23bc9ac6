//! The access token of the admin client, cached until shortly before it expires. Only one request fetches it at a time.

use std::sync::Arc;

use contract::Clock;
use http::{Method, StatusCode};
use serde::Deserialize;
use service::client::{Call, Client, Unavailable};
use tokio::sync::Mutex;

/// A token is not used in its last seconds, because it must still be valid when it arrives.
const MARGIN_SECONDS: i64 = 10;

/// The cached token, fetched when needed. Cheap to clone; clones share the token.
#[derive(Clone)]
pub(super) struct AdminToken {
    client: Client,
    path: String,
    client_id: String,
    client_secret: String,
    clock: Clock,
    held: Arc<Mutex<Option<Held>>>,
}

struct Held {
    token: String,
    expires_at: i64,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: i64,
}

impl AdminToken {
    pub(super) fn new(
        client: Client,
        path: String,
        client_id: String,
        client_secret: String,
        clock: Clock,
    ) -> Self {
        Self { client, path, client_id, client_secret, clock, held: Arc::default() }
    }

    /// Returns a token that is valid for at least [`MARGIN_SECONDS`].
    pub(super) async fn current(&self) -> Result<String, Unavailable> {
        let mut held = self.held.lock().await;
        let now = self.clock.unix_seconds();
        if let Some(held) = held.as_ref().filter(|held| held.expires_at > now) {
            return Ok(held.token.clone());
        }
        let fetched = self.fetch().await?;
        let token = fetched.access_token.clone();
        let expires_at = now.saturating_add(fetched.expires_in).saturating_sub(MARGIN_SECONDS);
        *held = Some(Held { token: fetched.access_token, expires_at });
        Ok(token)
    }

    /// Drops a token that the provider refused, but keeps one that was fetched since.
    pub(super) async fn forget(&self, refused: &str) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.token == refused) {
            *held = None;
        }
    }

    async fn fetch(&self) -> Result<TokenAnswer, Unavailable> {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", self.client_id.as_str()),
            ("client_secret", self.client_secret.as_str()),
        ];
        let answer = self.client.send(Call::new(Method::POST, &self.path).form(&form)).await?;
        if answer.status != StatusCode::OK {
            return Err(self.client.unavailable(format!("token: status {}", answer.status)));
        }
        self.client.json(&answer)
    }
}
