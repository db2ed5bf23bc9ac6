//! A client of the gateway: one TLS connection, HTTP/1.1 or HTTP/2, no redirects, no pool.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    H1,
    H2,
}

pub(crate) const BOTH: [Version; 2] = [Version::H1, Version::H2];

enum Sender {
    H1(http1::SendRequest<Body>),
    H2(http2::SendRequest<Body>),
}

/// One connection.
pub(crate) struct Client {
    sender: Sender,
    _driver: JoinSet<()>,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }
}

impl Client {
    pub(crate) async fn connect(
        address: SocketAddr,
        root: &CertificateDer<'static>,
        version: Version,
    ) -> Self {
        let stream = tls(address, root, version).await;
        let mut driver = JoinSet::new();
        let sender = match version {
            Version::H1 => {
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
                driver.spawn(async { drop(connection.await) });
                Sender::H1(sender)
            }
            Version::H2 => {
                let (sender, connection) =
                    http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
                driver.spawn(async { drop(connection.await) });
                Sender::H2(sender)
            }
        };
        Self { sender, _driver: driver }
    }

    /// Sends a request whose target is `path`, and returns the head of the answer.
    pub(crate) async fn open(&mut self, mut request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        match &mut self.sender {
            Sender::H1(sender) => {
                if !request.headers().contains_key("host") {
                    request.headers_mut().insert("host", "localhost:8443".parse().expect("a host"));
                }
                // The connection's task may still be finishing the previous answer.
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::H2(sender) => {
                let path = request.uri().path_and_query().expect("a path").as_str();
                *request.uri_mut() = format!("https://localhost:8443{path}").parse().expect("a URI");
                sender.send_request(request).await
            }
        }
    }

    pub(crate) async fn send(&mut self, request: Request<Body>) -> Reply {
        let expected = request.uri().path().to_owned();
        let response = self.open(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        let reply = Reply { status: parts.status.as_u16(), headers: parts.headers, body };
        check(&expected, &reply);
        reply
    }
}

/// A TLS connection to the gateway, without HTTP.
pub(crate) async fn tls(
    address: SocketAddr,
    root: &CertificateDer<'static>,
    version: Version,
) -> TlsStream<TcpStream> {
    try_tls(address, root, version).await.expect("a handshake")
}

/// The same, but the handshake may fail.
pub(crate) async fn try_tls(
    address: SocketAddr,
    root: &CertificateDer<'static>,
    version: Version,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![if version == Version::H2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A request whose body is these frames, without a declared length.
pub(crate) fn streamed(method: Method, path: &str, bearer: &str, frames: Vec<Frame<Bytes>>) -> Request<Body> {
    let frames = futures_util::stream::iter(frames.into_iter().map(Ok));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", bearer)
        .header("trailer", "x-user-id");
    request.body(BodyExt::boxed(StreamBody::new(frames))).expect("a request")
}

/// A request with a one-piece body.
pub(crate) fn request(method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Full::new(Bytes::from(body.to_owned())).map_err(|never| match never {}).boxed();
    request.body(body).expect("a request")
}

/// Checks that every answer has a correlation id, and that every error of the gateway has the published shape.
fn check(path: &str, reply: &Reply) {
    static ENVELOPE: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let document: Value = serde_json::from_str(edge::OPENAPI).expect("JSON");
        jsonschema::validator_for(&document["components"]["schemas"]["ErrorEnvelope"]).expect("a schema")
    });
    assert!(reply.header("x-correlation-id").is_some(), "{path}: {reply:?}");
    let is_envelope = serde_json::from_slice::<Value>(&reply.body).is_ok_and(|body| ENVELOPE.is_valid(&body));
    let probe = path == "/readyz";
    assert!(reply.status < 400 || probe || is_envelope, "{path}: {reply:?}");
}
