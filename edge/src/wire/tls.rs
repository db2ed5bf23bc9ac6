//! TLS: a bounded number of handshakes at once, each within its budget, with the certificate of this moment.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ProtocolVersion;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::Protocol;
use super::listen::Accepted;
use super::sending::Sending;
use crate::config::{Limits, Timers};
use crate::tally::{Tally, Wait};
use crate::watch::certificates::Certificates;

/// ALPN name of HTTP/2.
pub(crate) const ALPN_H2: &[u8] = b"h2";
/// ALPN name of HTTP/1.1.
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";

/// A client's connection, ready to speak HTTP.
pub(crate) struct Secured<S> {
    pub(crate) stream: S,
    pub(crate) peer: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) scheme: Scheme,
    pub(crate) place: OwnedSemaphorePermit,
}

/// How the client reached this listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl Secured<TlsStream<Sending>> {
    /// The version of TLS that both sides agreed on.
    pub(crate) fn version(&self) -> &'static str {
        match self.stream.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            _ => "other",
        }
    }
}

/// Ends TLS.
pub(crate) struct Handshakes {
    certificates: Arc<Certificates>,
    at_once: Semaphore,
    timers: Timers,
    tally: Tally,
}

impl Handshakes {
    pub(crate) fn new(
        certificates: Arc<Certificates>,
        limits: &Limits,
        timers: Timers,
        tally: Tally,
    ) -> Self {
        Self { certificates, at_once: Semaphore::new(limits.handshakes), timers, tally }
    }

    pub(crate) async fn handshake(&self, accepted: Accepted) -> io::Result<Secured<TlsStream<Sending>>> {
        let Accepted { stream, peer, place } = accepted;
        let acceptor = TlsAcceptor::from(self.certificates.present());
        let shaken = async {
            let _one_of_many = if let Ok(turn) = self.at_once.try_acquire() {
                turn
            } else {
                self.tally.waited(Wait::Handshakes);
                self.at_once.acquire().await.map_err(io::Error::other)?
            };
            let mut stream = acceptor.accept(Sending::new(stream)).await?;
            let (socket, session) = stream.get_mut();
            socket.settle();
            if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
                // The client waits for the server's last words before it says anything.
                stream.flush().await?;
            }
            io::Result::Ok(stream)
        };
        let stream = timeout(self.timers.tls, shaken)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
        let protocol = if h2 { Protocol::Http2 } else { Protocol::Http1 };
        Ok(Secured { stream, peer, protocol, scheme: Scheme::Https, place })
    }
}

/// A connection of the listener without TLS.
pub(crate) fn plain(accepted: Accepted) -> Secured<TcpStream> {
    let Accepted { stream, peer, place } = accepted;
    Secured { stream, peer, protocol: Protocol::Http1, scheme: Scheme::Http, place }
}
