//! One GET of the JWKS document: 2 s in total, at most 1 MiB, no redirects, http or https with the system's roots.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Time limit: a slower provider must not hold up a request with an unknown key id.
const BUDGET: Duration = Duration::from_secs(2);
/// About a hundred times the size of a real document.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no response within 2 s")]
    TimedOut,
    #[error("cannot connect: {0}")]
    Connect(#[source] std::io::Error),
    #[error("no trusted root certificates on this machine")]
    NoRoots,
    #[error("the address has no host")]
    NoHost,
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    #[error("the provider answered {0}")]
    Status(StatusCode),
    #[error("cannot read the response: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
}

/// Fetches one address; keeps the TLS configuration between fetches.
#[derive(Debug)]
pub(crate) struct Fetcher {
    url: Uri,
    tls: OnceCell<Arc<ClientConfig>>,
}

impl Fetcher {
    pub(crate) fn new(url: Uri) -> Self {
        Self { url, tls: OnceCell::new() }
    }

    pub(crate) async fn fetch(&self) -> Result<Bytes, FetchError> {
        tokio::time::timeout(BUDGET, self.fetch_unhurried()).await.map_err(|_| FetchError::TimedOut)?
    }

    async fn fetch_unhurried(&self) -> Result<Bytes, FetchError> {
        let host = self.url.host().ok_or(FetchError::NoHost)?.trim_matches(['[', ']']);
        let https = self.url.scheme_str() == Some("https");
        let port = self.url.port_u16().unwrap_or(if https { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(FetchError::Connect)?;
        if !https {
            return self.exchange(stream).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_| FetchError::NoHost)?;
        let config = self.tls.get_or_try_init(tls_config).await?;
        let secured = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        self.exchange(secured.map_err(FetchError::Connect)?).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Bytes, FetchError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The set stops the connection's task when this future ends or a timeout drops it.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let response = sender.send_request(self.request()).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_DOCUMENT_BYTES).collect().await;
        Ok(body.map_err(FetchError::Body)?.to_bytes())
    }

    fn request(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().unwrap_or_default();
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        if let Ok(host) = header::HeaderValue::from_str(authority) {
            request.headers_mut().insert(header::HOST, host);
        }
        request.headers_mut().insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
        request
    }
}

/// Reading the system's roots opens many files, so it runs on a blocking thread.
async fn tls_config() -> Result<Arc<ClientConfig>, FetchError> {
    let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.map_err(|_| FetchError::NoRoots)?.certs);
    if roots.is_empty() {
        return Err(FetchError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
