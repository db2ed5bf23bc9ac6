//! The public API as one user calls it: a call returns the response's `data`; a refusal ends the demo.

use reqwest::{Client, Method};
use serde_json::Value;

use crate::stop::Stop;

/// The largest page size, and more items of a kind than the demo creates.
const PAGE: &str = "pageSize=100";

/// One user of a running platform.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) client: Client,
    pub(super) base: String,
    pub(super) token: String,
}

impl Api {
    pub(super) async fn get(&self, path: &str) -> Result<Value, Stop> {
        self.send(Method::GET, path, None).await
    }

    /// Returns the items of a list's first page, which the demo never fills.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>, Stop> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = self.get(&format!("{path}{separator}{PAGE}")).await?;
        let items = page.get("items").and_then(Value::as_array);
        Ok(items.or_else(|| page.as_array()).cloned().unwrap_or_default())
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Stop> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Value, Stop> {
        self.send(Method::PUT, path, Some(body)).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Stop> {
        let mut request =
            self.client.request(method.clone(), format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| crate::token::unanswered(&error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| crate::token::unanswered(&error))?;
        let mut body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(body.get_mut("data").map(Value::take).unwrap_or_default());
        }
        let of =
            |name: &str| body.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or_default();
        Err(Stop::Failed(format!("{method} {path}: {status} {} {}", of("code"), of("message"))))
    }
}

/// A text field; empty if it is missing.
pub(super) fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Finds the item whose `field` has the text `wanted`.
pub(super) fn having<'a>(items: &'a [Value], field: &str, wanted: &str) -> Option<&'a Value> {
    items.iter().find(|item| item.get(field).and_then(Value::as_str) == Some(wanted))
}
