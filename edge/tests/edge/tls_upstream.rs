//! TLS for scripted upstreams: a certificate for `localhost`, the authority file that makes the gateway trust it, and a
//! connection whose records a test writes by hand.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The protocol of a test's upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Plain,
    Tls12,
    Tls13,
}

pub(crate) const SCHEMES: [Scheme; 3] = [Scheme::Plain, Scheme::Tls12, Scheme::Tls13];

/// An authority of upstreams; dropping it removes its file.
pub(crate) struct Authority {
    folder: PathBuf,
    file: PathBuf,
    certified: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let certified =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let folder = std::env::temp_dir().join(format!("edge-upstream-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("ca.pem");
        std::fs::write(&file, certified.cert.pem()).expect("a file");
        Self { folder, file, certified }
    }

    /// The value of `PLATFORM_GATEWAY_UPSTREAM_CA`.
    pub(crate) fn file(&self) -> String {
        self.file.to_string_lossy().into_owned()
    }

    /// Accepts TLS of this version.
    pub(crate) fn acceptor(&self, version: &'static SupportedProtocolVersion) -> TlsAcceptor {
        let key = rustls_pki_types::PrivateKeyDer::try_from(self.certified.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(vec![self.certified.cert.der().clone()], key.expect("a key"))
            .expect("a configuration");
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("the test's own folder");
    }
}

/// How a scripted upstream accepts connections.
#[derive(Clone)]
pub(crate) struct Entrance(Option<TlsAcceptor>);

impl Entrance {
    pub(crate) fn of(scheme: Scheme, authority: &Authority) -> Self {
        Self(match scheme {
            Scheme::Plain => None,
            Scheme::Tls12 => Some(authority.acceptor(&rustls::version::TLS12)),
            Scheme::Tls13 => Some(authority.acceptor(&rustls::version::TLS13)),
        })
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(match &self.0 {
            None => Wire::Plain(stream),
            Some(acceptor) => Wire::Tls(Box::new(acceptor.accept(stream).await?)),
        })
    }
}

/// The upstream's end of a connection.
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// The bytes sent for this plaintext; with TLS one record.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        self.sealed(|session| session.writer().write_all(plain).expect("room"), plain)
    }

    /// The bytes of a `close_notify`; none without TLS.
    pub(crate) fn goodbye(&mut self) -> Vec<u8> {
        self.sealed(|session| session.send_close_notify(), b"")
    }

    /// The bytes of a key update; none without TLS.
    pub(crate) fn new_keys(&mut self) -> Vec<u8> {
        self.sealed(|session| session.refresh_traffic_keys().expect("TLS 1.3"), b"")
    }

    fn sealed(&mut self, put: impl FnOnce(&mut rustls::ServerConnection), plain: &[u8]) -> Vec<u8> {
        let Self::Tls(stream) = self else { return plain.to_vec() };
        let session = stream.get_mut().1;
        put(session);
        let mut sealed = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sealed).expect("sealed");
        }
        sealed
    }

    /// Writes raw bytes; `false` if the gateway has closed the connection.
    pub(crate) async fn write(&mut self, sealed: &[u8]) -> bool {
        self.tcp().write_all(sealed).await.is_ok()
    }

    pub(crate) fn tcp(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }

    /// The next request's head and its first line; `None` if the gateway has closed the connection.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            let byte = match self {
                Self::Plain(stream) => stream.read_u8().await,
                Self::Tls(stream) => stream.read_u8().await,
            };
            read.push(byte.ok()?);
        }
        Some(String::from_utf8(read).expect("text"))
    }

    /// Reads a request whose body, if it has one, is `{}`, and returns method and path.
    pub(crate) async fn request(&mut self) -> Option<(String, String)> {
        let head = self.head().await?;
        if head.contains("content-length: 2\r\n") {
            let mut body = [0; 2];
            match self {
                Self::Plain(stream) => stream.read_exact(&mut body).await.ok()?,
                Self::Tls(stream) => stream.read_exact(&mut body).await.ok()?,
            };
        }
        let mut words = head.split(' ').map(str::to_owned);
        Some((words.next().expect("a method"), words.next().expect("a path")))
    }
}
