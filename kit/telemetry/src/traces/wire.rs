//! The exporter's HTTP client: pooled HTTP/1.1, TLS with the system's roots, a response size limit. The OTLP crates'
//! own clients would bring dependencies that the gateway must not have.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};

/// Largest response; a receiver answers with a few bytes.
const MOST_ANSWER: usize = 64 << 10;
/// Longest exchange, whatever the configured timeout: the thread has other parts' spans to send.
const LONGEST: Duration = Duration::from_secs(30);

/// An HTTP client that sends batches.
#[derive(Clone, Debug)]
pub(super) struct Wire(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Wire {
    pub(super) fn new() -> io::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.0.request(request.map(Full::new)).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MOST_ANSWER).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}

#[async_trait::async_trait]
impl HttpClient for Wire {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        tokio::time::timeout(LONGEST, self.exchange(request)).await?
    }
}
