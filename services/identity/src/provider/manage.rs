//! Changes at the provider: its settings, for `reconcile`, and the removal of an account.

use http::{Method, StatusCode};
use serde_json::Value;
use service::client::{Answer, Unavailable, encode_segment};

use super::Provider;

impl Provider {
    /// The realm's settings; `None` if there is no such realm.
    pub(crate) async fn realm(&self) -> Result<Option<Value>, Unavailable> {
        let answer = self.ask("").await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.read(&answer).map(Some)
    }

    /// Every client of the realm, with its mappers.
    pub(crate) async fn clients(&self) -> Result<Vec<Value>, Unavailable> {
        self.pages("/clients?viewableOnly=false").await
    }

    /// Replaces a resource.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<(), Unavailable> {
        let answer = self.exchange(&Method::PUT, path, Some(body)).await?;
        self.accepted(&Method::PUT, path, &answer)
    }

    /// Creates a resource.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<(), Unavailable> {
        let answer = self.exchange(&Method::POST, path, Some(body)).await?;
        self.accepted(&Method::POST, path, &answer)
    }

    /// Removes an account and everything that the provider holds about it. Succeeds if the account is gone already.
    pub(crate) async fn remove_account(&self, id: &str) -> Result<(), Unavailable> {
        let path = format!("/users/{}", encode_segment(id));
        let answer = self.exchange(&Method::DELETE, &path, None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        self.accepted(&Method::DELETE, &path, &answer)
    }

    /// Turns a refusal into an error that quotes the provider's response, which contains no secret.
    fn accepted(&self, method: &Method, path: &str, answer: &Answer) -> Result<(), Unavailable> {
        if answer.status.is_success() {
            return Ok(());
        }
        let words: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        Err(self.failed(format!("{method} {path}: status {}: {words}", answer.status)))
    }
}
