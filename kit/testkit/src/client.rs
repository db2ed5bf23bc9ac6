//! A small HTTP/1.1 JSON client for API tests. An incomplete response fails the test.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Time limit of a request: no service under test takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service under test.
#[derive(Clone, Debug)]
pub struct Api {
    base_url: String,
    http: Client<HttpConnector, Full<Bytes>>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status as a number, as in the specification.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as JSON; `Null` when it is empty or not JSON.
    pub body: Value,
    /// The body as text.
    pub text: String,
}

/// A request to be sent.
#[derive(Clone, Debug)]
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    api: Api,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Api {
    /// The service that listens at `address`.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self {
            base_url: format!("http://{address}"),
            http: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// `http://127.0.0.1:…`.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// A request of any method. `path` may hold a query.
    pub fn call(&self, method: Method, path: impl Into<String>) -> Call {
        Call { api: self.clone(), method, path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// A `GET` request.
    pub fn get(&self, path: impl Into<String>) -> Call {
        self.call(Method::GET, path)
    }

    /// A `POST` request.
    pub fn post(&self, path: impl Into<String>) -> Call {
        self.call(Method::POST, path)
    }

    /// A `PUT` request.
    pub fn put(&self, path: impl Into<String>) -> Call {
        self.call(Method::PUT, path)
    }

    /// A `PATCH` request.
    pub fn patch(&self, path: impl Into<String>) -> Call {
        self.call(Method::PATCH, path)
    }

    /// A `DELETE` request.
    pub fn delete(&self, path: impl Into<String>) -> Call {
        self.call(Method::DELETE, path)
    }
}

impl Call {
    /// With a bearer token.
    pub fn bearer(self, token: &str) -> Self {
        self.header(AUTHORIZATION.as_str(), format!("Bearer {token}"))
    }

    /// With the services' credential, as another service calls.
    pub fn service(self) -> Self {
        self.header("x-platform-service", crate::SERVICE)
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// With a JSON body.
    #[expect(clippy::needless_pass_by_value, reason = "a test writes json!({…}) here")]
    pub fn json(self, body: Value) -> Self {
        self.header(CONTENT_TYPE.as_str(), "application/json").body(body.to_string())
    }

    /// With any body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request and reads the whole response.
    ///
    /// # Panics
    /// There is no response.
    #[expect(clippy::panic, reason = "a test without a response has failed, and this says why")]
    pub async fn send(self) -> Reply {
        let what = format!("{} {}{}", self.method, self.api.base_url, self.path);
        match self.try_send().await {
            Ok(reply) => reply,
            Err(error) => panic!("{what}: {error:#}"),
        }
    }

    /// Sends the request and reads the whole response, for tests that expect none.
    ///
    /// # Errors
    /// No connection, or no complete response in time.
    pub async fn try_send(self) -> anyhow::Result<Reply> {
        let mut request =
            Request::builder().method(self.method).uri(format!("{}{}", self.api.base_url, self.path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body))?;
        let exchange = async {
            let (parts, body) = self.api.http.request(request).await?.into_parts();
            let text = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
            let body = serde_json::from_str(&text).unwrap_or(Value::Null);
            anyhow::Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body, text })
        };
        tokio::time::timeout(PATIENCE, exchange).await?
    }
}

impl Reply {
    /// `data` of the success envelope.
    #[must_use]
    pub fn data(&self) -> &Value {
        self.body.get("data").unwrap_or(&Value::Null)
    }

    /// `error.code` of the error envelope; empty when there is none.
    #[must_use]
    pub fn code(&self) -> &str {
        self.body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default()
    }

    /// The wrong fields in a validation error, as `path rule`.
    ///
    /// # Panics
    /// The response is not a validation error.
    #[must_use]
    pub fn wrong_fields(&self) -> Vec<String> {
        assert_eq!((self.status, self.code()), (400, "VALIDATION_ERROR"), "{}", self.text);
        let fields = self.body.pointer("/error/details/fields").and_then(Value::as_array);
        let word =
            |field: &Value, name: &str| field.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
        let told = |field: &Value| format!("{} {}", word(field, "path"), word(field, "rule"));
        fields.into_iter().flatten().map(told).collect()
    }

    /// One header as text; empty when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
