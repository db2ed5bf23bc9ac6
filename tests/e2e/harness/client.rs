//! An API client over real TLS. Checks every response of a gateway route against `edge/openapi.json`.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Certificate, Client, Method, StatusCode};
use serde_json::Value;
use testkit::OpenApi;

/// The gateway's document.
pub(crate) static DOCUMENT: LazyLock<OpenApi> =
    LazyLock::new(|| OpenApi::parse(include_str!("../../../edge/openapi.json")));

/// Content type of the metrics route, the only response that is not JSON.
const EXPOSITION: &str = "text/plain; version=0.0.4";

/// The HTTP version of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// A client of one platform, which trusts only the platform's development CA.
#[derive(Clone)]
pub(crate) struct Api {
    http: Client,
    base_url: String,
    token: Option<String>,
    header: Option<(String, String)>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
    pub(crate) version: reqwest::Version,
}

impl Reply {
    /// `data` of a response with this status.
    #[track_caller]
    pub(crate) fn data(&self, status: u16) -> &Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        &self.body["data"]
    }

    /// Asserts a refusal with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status.as_u16(), self.body["error"]["code"].as_str()),
            (status, Some(code)),
            "{}",
            self.body
        );
    }

    /// Like the assertion, but as a value, for [`super::eventually`].
    pub(crate) fn expect_status(&self, status: u16) -> Result<(), String> {
        if self.status.as_u16() == status { Ok(()) } else { Err(format!("{} {}", self.status, self.body)) }
    }
}

/// An HTTP client that trusts the CA of a data directory.
pub(crate) fn http(ca: &Path, version: Version) -> reqwest::ClientBuilder {
    // A second installation in this process is refused without effect: it is the same provider.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let pem = std::fs::read(ca).expect("the CA was written");
    let ca = Certificate::from_pem(&pem).expect("the CA is a certificate");
    let builder = Client::builder()
        .tls_certs_only([ca])
        .timeout(Duration::from_secs(20))
        .redirect(reqwest::redirect::Policy::none());
    match version {
        Version::Http1 => builder.http1_only(),
        Version::Http2 => builder,
    }
}

impl Api {
    pub(crate) fn new(base_url: &str, ca: &Path, version: Version) -> Self {
        let http = http(ca, version).build().expect("a client");
        Self { http, base_url: base_url.to_owned(), token: None, header: None }
    }

    /// The same client with a bearer.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same client with one more header.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Self {
        Self { header: Some((name.to_owned(), value.to_owned())), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        self.try_send(method, path, body).await.expect("the edge answers")
    }

    /// A response, or why there is none (the gateway is being killed).
    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> reqwest::Result<Reply> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.base_url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some((name, value)) = &self.header {
            request = request.header(name, value);
        }
        if let Some(body) = &body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let (status, version) = (response.status(), response.version());
        let exposition = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == EXPOSITION);
        let bytes = response.bytes().await?;
        if exposition {
            return Ok(Reply { status, body: Value::from(String::from_utf8_lossy(&bytes)), version });
        }
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            panic!("{method} {path}: {status}: no JSON: {}", String::from_utf8_lossy(&bytes))
        });
        hold_against_document(&method, path, status, &body);
        Ok(Reply { status, body, version })
    }
}

/// Checks responses of gateway routes against their document; modules check theirs in their own tests.
fn hold_against_document(method: &Method, path: &str, status: StatusCode, body: &Value) {
    let path = path.split('?').next().unwrap_or_default();
    let of_the_gateway =
        ["/api/auth/", "/api/org/", "/api/platform/"].into_iter().any(|prefix| path.starts_with(prefix));
    if of_the_gateway
        && let Err(error) = DOCUMENT.check_response(method.as_str(), path, status.as_u16(), body)
    {
        panic!("{method} {path} -> {status} is not as documented: {error:#}\n{body}");
    }
}
