//! A scripted upstream that stands in for another service: answers, hangs or breaks off as scripted, and records its
//! requests.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The stub; lives as long as the test's runtime. Clones are the same upstream.
#[derive(Clone)]
pub struct Stub {
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    script: Arc<Mutex<Script>>,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `GET`, …
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Query; empty when there is none.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body as JSON; `Null` when it is empty or not JSON.
    pub body: Value,
    /// The body's bytes exactly as received.
    pub raw: Bytes,
}

#[derive(Default)]
struct Script {
    rules: Vec<Rule>,
    recorded: Vec<Recorded>,
}

#[derive(Clone)]
struct Rule {
    method: String,
    path: String,
    reaction: Reaction,
}

type Answer = dyn Fn(&Recorded) -> Response<Bytes> + Send + Sync;

#[derive(Clone)]
enum Reaction {
    Answer(Arc<Answer>),
    Hang,
    Close,
}

impl Stub {
    /// Starts the upstream; it answers 404 to everything that is not scripted.
    ///
    /// # Panics
    /// No loopback port is available.
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    /// Starts the upstream behind TLS; [`crate::TestAuthority::server`] makes such a configuration.
    ///
    /// # Panics
    /// No loopback port is available.
    pub async fn start_tls(config: Arc<ServerConfig>) -> Self {
        Self::listen(Some(TlsAcceptor::from(config))).await
    }

    #[expect(clippy::expect_used, reason = "a test without a loopback port cannot run")]
    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let stub = Self { address, tls, script: Arc::default() };
        tokio::spawn(stub.clone().accept(listener));
        stub
    }

    /// `http://127.0.0.1:…`, for a `…_BASE_URL` variable; `https://` behind TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The address on which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Always answers `method path` like this. A path that ends in `*` matches every path with that prefix; the latest
    /// rule wins.
    pub fn answer(&self, method: &str, path: &str, status: u16, body: Value) {
        self.answer_with(method, path, move |_| (status, body.clone()));
    }

    /// Answers as `answer` computes from the request.
    pub fn answer_with(
        &self,
        method: &str,
        path: &str,
        answer: impl Fn(&Recorded) -> (u16, Value) + Send + Sync + 'static,
    ) {
        self.respond_with(method, path, move |request| {
            let (status, body) = answer(request);
            render(status, &body)
        });
    }

    /// Answers with any status, headers and bytes, as `answer` computes from the request.
    pub fn respond_with(
        &self,
        method: &str,
        path: &str,
        answer: impl Fn(&Recorded) -> Response<Bytes> + Send + Sync + 'static,
    ) {
        self.set(method, path, Reaction::Answer(Arc::new(answer)));
    }

    /// Accepts the request and never answers.
    pub fn hang(&self, method: &str, path: &str) {
        self.set(method, path, Reaction::Hang);
    }

    /// Accepts the request and closes the connection.
    pub fn close(&self, method: &str, path: &str) {
        self.set(method, path, Reaction::Close);
    }

    /// Every request so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.script().recorded.clone()
    }

    fn set(&self, method: &str, path: &str, reaction: Reaction) {
        self.script().rules.push(Rule { method: method.to_owned(), path: path.to_owned(), reaction });
    }

    async fn accept(self, listener: TcpListener) {
        while let Ok((socket, _)) = listener.accept().await {
            let stub = self.clone();
            tokio::spawn(async move {
                match stub.tls.clone() {
                    None => stub.serve(socket).await,
                    // Some tests provoke a failed handshake.
                    Some(tls) => {
                        if let Ok(socket) = tls.accept(socket).await {
                            stub.serve(socket).await;
                        }
                    }
                }
            });
        }
    }

    async fn serve(self, socket: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(move |request| self.clone().react(request));
        // Some tests provoke a connection that breaks off.
        drop(http1::Builder::new().serve_connection(TokioIo::new(socket), service).await);
    }

    async fn react(self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let recorded = record(request).await.map_err(io::Error::other)?;
        let reaction = self.script().reaction(&recorded);
        self.script().recorded.push(recorded.clone());
        match reaction {
            None => {
                let body = json!({ "error": { "code": "NOT_FOUND", "message": "", "details": null } });
                Ok(render(404, &body).map(Full::new))
            }
            Some(Reaction::Answer(answer)) => Ok(answer(&recorded).map(Full::new)),
            Some(Reaction::Hang) => std::future::pending().await,
            // hyper closes the connection of a service that fails.
            Some(Reaction::Close) => Err(io::Error::other("the test asked for it")),
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    fn reaction(&self, request: &Recorded) -> Option<Reaction> {
        let rule =
            self.rules.iter().rev().find(|rule| rule.method == request.method && rule.covers(&request.path));
        rule.map(|rule| rule.reaction.clone())
    }
}

impl Rule {
    fn covers(&self, path: &str) -> bool {
        self.path.strip_suffix('*').map_or(self.path == path, |prefix| path.starts_with(prefix))
    }
}

async fn record(request: Request<Incoming>) -> Result<Recorded, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Recorded {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        raw: body,
    })
}

fn render(status: u16, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
