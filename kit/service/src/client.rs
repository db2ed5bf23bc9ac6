//! Calls from one service to another: pooled HTTP/1.1, one time budget for the whole exchange, a response size limit,
//! no redirects, no retries. Anything short of a complete response is [`Unavailable`]. The calling request's trace is
//! propagated.

use std::time::Duration;

use bytes::Bytes;
use contract::CorrelationId;
use contract::correlation;
use contract::envelope::DataBody;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use telemetry::traces::context;
use telemetry::{Scope, Span};

use crate::inside::{self, Inside};

/// Largest response body that is read, in bytes.
const ANSWER_LIMIT: usize = 4 << 20;
/// Closes idle connections before the other side does (75 s).
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The named dependency did not give a complete response.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{dependency} cannot answer: {reason}")]
pub struct Unavailable {
    /// The dependency's name.
    pub dependency: &'static str,
    /// What happened, for the log.
    pub reason: String,
}

/// A request to be sent.
#[derive(Debug)]
pub struct Call {
    method: Method,
    path: String,
    bearer: Option<String>,
    correlation: Option<String>,
    content_type: &'static str,
    /// Why the content could not be serialised, if it could not.
    body: Result<Vec<u8>, String>,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, bearer: None, correlation: None, content_type: "", body: Ok(Vec::new()) }
    }

    /// With a bearer token.
    #[must_use]
    pub fn bearer(mut self, token: &str) -> Self {
        self.bearer = Some(token.to_owned());
        self
    }

    /// With the request's correlation id.
    #[must_use]
    pub fn correlation(mut self, id: &CorrelationId) -> Self {
        self.correlation = Some(id.as_str().to_owned());
        self
    }

    /// With a JSON body. A call whose content cannot be serialised is not sent ([`Unavailable`]).
    #[must_use]
    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.content_type = "application/json";
        self.body = serde_json::to_vec(body).map_err(|error| error.to_string());
        self
    }

    /// Length of the body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Vec::len)
    }

    /// With a form body.
    #[must_use]
    pub fn form(mut self, fields: &[(&str, &str)]) -> Self {
        self.content_type = "application/x-www-form-urlencoded";
        let text = serde_urlencoded::to_string(fields);
        self.body = text.map(String::into_bytes).map_err(|error| error.to_string());
        self
    }
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, at most 4 MiB.
    pub body: Bytes,
}

/// A client of one other service. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    dependency: &'static str,
    base_url: String,
    budget: Duration,
    service: Option<HeaderValue>,
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    /// A client of the service `dependency` at `base_url`; each exchange takes at most `budget`.
    #[must_use]
    pub fn new(dependency: &'static str, base_url: &str, budget: Duration) -> Self {
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(connector());
        Self { dependency, base_url: base_url.trim_end_matches('/').to_owned(), budget, service: None, http }
    }

    /// The same client, sending the services' credential; for internal routes only.
    #[must_use]
    pub fn inside(mut self, inside: &Inside) -> Self {
        self.service = inside.sent().cloned();
        self
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// Not connected, no response within the budget, cut off, or larger than the limit.
    pub async fn send(&self, call: Call) -> Result<Answer, Unavailable> {
        let mut request = self.request(call)?;
        let scope = Scope::present();
        let span = scope
            .as_ref()
            .and_then(|scope| scope.span()?.ask(format!("{} {}", request.method(), self.dependency)));
        let trace = span.as_ref().map(Span::context).or_else(|| scope.as_ref()?.context());
        trace.inspect(|trace| context::write(trace, request.headers_mut()));
        let exchange = async {
            let response =
                self.http.request(request).await.map_err(|error| self.unavailable(chain(&error)))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LIMIT).collect().await;
            let body = body.map_err(|error| self.unavailable(error.to_string()))?.to_bytes();
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        let in_time = tokio::time::timeout(self.budget, exchange).await;
        let answered =
            in_time.unwrap_or_else(|_| Err(self.unavailable(format!("no answer within {:?}", self.budget))));
        if let Some(span) = &span {
            match &answered {
                Ok(answer) => span.set("http.response.status_code", i64::from(answer.status.as_u16())),
                Err(unavailable) => span.fail(unavailable.reason.clone()),
            }
        }
        answered
    }

    /// The `data` of the response's envelope.
    ///
    /// # Errors
    /// The body is not an envelope with this content.
    pub fn data<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Unavailable> {
        self.json::<DataBody<T>>(answer).map(|body| body.data)
    }

    /// The response body as JSON.
    ///
    /// # Errors
    /// The body is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Unavailable> {
        serde_json::from_slice(&answer.body)
            .map_err(|error| self.unavailable(format!("unreadable answer: {error}")))
    }

    /// An [`Unavailable`] for this dependency, with a reason of the caller's own.
    #[must_use]
    pub const fn unavailable(&self, reason: String) -> Unavailable {
        Unavailable { dependency: self.dependency, reason }
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, Unavailable> {
        let body =
            call.body.map_err(|why| self.unavailable(format!("the request cannot be written: {why}")))?;
        let mut builder =
            Request::builder().method(call.method).uri(format!("{}{}", self.base_url, call.path));
        if let Some(token) = &call.bearer {
            builder = builder.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(credential) = &self.service {
            builder = builder.header(inside::HEADER, credential.clone());
        }
        if let Some(id) = &call.correlation {
            builder = builder.header(correlation::HEADER, id);
        }
        if !call.content_type.is_empty() {
            builder = builder.header(CONTENT_TYPE, call.content_type);
        }
        builder.body(Full::new(Bytes::from(body))).map_err(|error| self.unavailable(error.to_string()))
    }
}

/// Percent-encodes everything except unreserved characters, for one path segment or query value.
#[must_use]
pub fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for nibble in [byte >> 4, byte & 15] {
                encoded
                    .extend(char::from_digit(u32::from(nibble), 16).map(|digit| digit.to_ascii_uppercase()));
            }
        }
    }
    encoded
}

/// A connector for plain addresses, and for TLS with the system's roots. Without any root, each TLS connection fails
/// with its own reason.
fn connector() -> HttpsConnector<HttpConnector> {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots).with_no_client_auth());
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_nodelay(true);
    HttpsConnectorBuilder::new()
        .with_tls_config(tls_or_none(config))
        .https_or_http()
        .enable_http1()
        .wrap_connector(plain)
}

#[expect(clippy::expect_used, reason = "the provider and the versions are constants of this crate")]
fn tls_or_none(config: Result<rustls::ClientConfig, rustls::Error>) -> rustls::ClientConfig {
    config.expect("aws-lc-rs speaks TLS 1.2 and 1.3")
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_cannot_be_written_is_not_sent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let client = Client::new("org", &address, Duration::from_secs(5));
        let content = std::collections::BTreeMap::from([((1, 2), 3)]);
        let call = Call::new(Method::POST, "/x").json(&content);
        let refused = client.send(call).await.expect_err("a key of JSON is a text");
        assert!(refused.reason.contains("cannot be written"), "{refused}");
        let accepted = std::pin::pin!(listener.accept());
        assert!(futures_util::poll!(accepted).is_pending(), "no connection is opened");
    }

    #[test]
    fn a_segment_cannot_leave_its_place() {
        assert_eq!(encode_segment("a/../b?c#d%é"), "a%2F..%2Fb%3Fc%23d%25%C3%A9");
        assert_eq!(encode_segment("018f-A_z.~"), "018f-A_z.~");
    }
}
