//! Calls to addresses that users give (webhooks, chat services, mail servers), without letting users reach what only
//! the platform can. The path of a call:
//!
//! ```text
//! client.target(text) -> Target               strict URL; hosts read as browsers read them (target.rs)
//!   -> network.resolve(name)                  once a connection, whatever was resolved before (network.rs)
//!   -> ranges::judge(each address)            one blocked address refuses the target (ranges.rs), and so does one of
//!                                             this machine, however public (network.rs)
//!   -> network.connect(checked address)       the address itself: nothing is resolved again
//!   -> TLS, certificate and name verified     (tls.rs)
//!   -> one request, one answer                limits on time, head and body; a redirect begins anew (exchange.rs)
//! ```
//!
//! Protocols other than HTTP take [`OutboundClient::connect`] and, for TLS, [`OutboundClient::secure`].
//!
//! Nothing here retries, pools or logs. A call uses no proxy and carries no cookies and no trace context.

mod config;
mod error;
mod exchange;
mod limited;
mod network;
mod ranges;
mod target;
mod tls;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use config::{MAX_NETWORKS, OutboundConfig, VARIABLES, authorities, networks};
pub use error::{FailureKind, OutboundError};
pub use exchange::{MAX_ANSWER_HEAD, MAX_ANSWER_HEADERS, MAX_ANSWER_HEADS, OutboundAnswer, OutboundRequest};
pub use network::{Network, Pending, SystemNetwork};
pub use target::{Host, MAX_URL, Target};

use limited::{Limited, ReadLimit};
use ranges::Standing;

/// Most bytes that are read from a connection besides the body: the heads, a TLS handshake with a long chain of
/// certificates, the session tickets that servers send, and the framing of records and chunks.
pub const MAX_BESIDE_BODY: usize = 256 << 10;
/// Most addresses of one name that are tried, all within one connect timeout.
const MAX_DIALLED: usize = 4;

/// Limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundLimits {
    /// Time to resolve and connect; the TLS handshake gets as long again.
    pub connect: Duration,
    /// Time for the whole call with its redirects.
    pub total: Duration,
    /// Bytes of the response body that are read; 0 reads only the head.
    pub answer_body: usize,
}

impl Default for OutboundLimits {
    /// Common time limits of webhook senders, and a body limit above what any caller reads.
    fn default() -> Self {
        let (connect, total) = (Duration::from_secs(5), Duration::from_secs(15));
        Self { connect, total, answer_body: 64 << 10 }
    }
}

/// A client for outbound calls. Cheap to clone.
#[derive(Clone)]
pub struct OutboundClient(Arc<Parts>);

struct Parts {
    config: OutboundConfig,
    limits: OutboundLimits,
    network: Box<dyn Network>,
    http_tls: TlsConnector,
    other_tls: TlsConnector,
}

impl OutboundClient {
    /// A client on the machine's own network.
    #[must_use]
    pub fn new(config: OutboundConfig, limits: OutboundLimits) -> Self {
        Self::with_network(config, limits, SystemNetwork::default())
    }

    /// The same client on another network.
    #[must_use]
    pub fn with_network(config: OutboundConfig, limits: OutboundLimits, network: impl Network) -> Self {
        let other_tls = tls::config(&config.authorities);
        let mut http_tls = other_tls.clone();
        http_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(Arc::new(Parts {
            config,
            limits,
            network: Box::new(network),
            http_tls: TlsConnector::from(Arc::new(http_tls)),
            other_tls: TlsConnector::from(Arc::new(other_tls)),
        }))
    }

    /// Parses a URL that a user gave and checks everything that needs no name resolution: what this refuses can never
    /// be called.
    ///
    /// # Errors
    /// [`FailureKind::RefusedUrl`], or [`FailureKind::RefusedAddress`] for a host that is a blocked address.
    pub fn target(&self, text: &str) -> Result<Target, OutboundError> {
        let target = Target::parse(text, self.0.config.allow_http)?;
        if let Host::Address(address) = target.host() {
            self.check(*address, target.port())?;
        }
        Ok(target)
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    /// Any [`FailureKind`]. No HTTP status is an error.
    pub async fn send(&self, request: OutboundRequest) -> Result<OutboundAnswer, OutboundError> {
        let total = self.0.limits.total;
        let until = Instant::now() + total;
        within(total, self.follow(request, until)).await
    }

    /// Connects to a host after its addresses have been checked.
    ///
    /// # Errors
    /// One of the host's addresses is blocked, or no connection was made within the limit.
    pub async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, OutboundError> {
        self.connect_for("", host, port).await
    }

    async fn connect_for(&self, tenant: &str, host: &Host, port: u16) -> Result<TcpStream, OutboundError> {
        let dial = async {
            let addresses = self.resolve(tenant, host, port).await?;
            self.dial(&addresses).await
        };
        within(self.0.limits.connect, dial).await
    }

    /// Performs a TLS handshake on a connection, as a client of `host`; verifies the certificate and its name.
    ///
    /// # Errors
    /// [`FailureKind::Certificate`], [`FailureKind::Tls`], or no handshake within the connect timeout.
    pub async fn secure(
        &self,
        stream: TcpStream,
        host: &Host,
    ) -> Result<TlsStream<TcpStream>, OutboundError> {
        within(self.0.limits.connect, tls::handshake(&self.0.other_tls, stream, host)).await
    }

    async fn follow(
        &self,
        mut request: OutboundRequest,
        until: Instant,
    ) -> Result<OutboundAnswer, OutboundError> {
        for _ in 0..=request.redirects {
            let answer = self.exchange(&request, until).await?;
            match request.redirected(&answer, self.0.config.allow_http)? {
                Some(next) => request = next,
                None => return Ok(answer),
            }
        }
        Err(OutboundError::new(FailureKind::Redirect, "too many redirects"))
    }

    async fn exchange(
        &self,
        request: &OutboundRequest,
        until: Instant,
    ) -> Result<OutboundAnswer, OutboundError> {
        let target = &request.target;
        let limits = self.0.limits;
        let stream = self.connect_for(&request.tenant, target.host(), target.port()).await?;
        let limit = ReadLimit::new(MAX_BESIDE_BODY.saturating_add(limits.answer_body));
        let stream = Limited { stream, limit };
        if target.is_tls() {
            let handshake = tls::handshake(&self.0.http_tls, stream, target.host());
            let stream = within(limits.connect, handshake).await?;
            return exchange::exchange(stream, request, limits.answer_body, until).await;
        }
        exchange::exchange(stream, request, limits.answer_body, until).await
    }

    /// The host's addresses. One blocked address refuses them all, because the resolver's next answer may hold it
    /// alone.
    async fn resolve(&self, tenant: &str, host: &Host, port: u16) -> Result<Vec<SocketAddr>, OutboundError> {
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let found = self.0.network.resolve(name, tenant).await;
                found.map_err(|error| OutboundError::new(FailureKind::Resolve, error))?
            }
        };
        let mut checked = Vec::with_capacity(found.len());
        for address in found {
            let address = self.check(address, port)?;
            if !checked.contains(&address) {
                checked.push(address);
            }
        }
        if checked.is_empty() {
            return Err(OutboundError::new(FailureKind::Resolve, format!("{host} has no address")));
        }
        Ok(checked)
    }

    fn check(&self, address: IpAddr, port: u16) -> Result<SocketAddr, OutboundError> {
        let address = SocketAddr::new(ranges::canonical(address), port);
        let refused =
            |why: &str| OutboundError::new(FailureKind::RefusedAddress, format!("{address}: {why}"));
        match ranges::judge(address.ip(), &self.0.config.allowed) {
            _ if port == 0 => Err(refused("port 0")),
            Standing::Blocked(range) => Err(refused(range)),
            Standing::Allowed if self.0.config.own_ports.contains(&port) => {
                Err(refused("the platform's own port"))
            }
            Standing::Public if self.0.network.is_own(address.ip()) => {
                Err(refused("this machine's own address"))
            }
            Standing::Allowed | Standing::Public => Ok(address),
        }
    }

    /// Connects to the first address that accepts; each gets its share of the time.
    async fn dial(&self, addresses: &[SocketAddr]) -> Result<TcpStream, OutboundError> {
        let tried = addresses.get(..MAX_DIALLED).unwrap_or(addresses);
        let share = self.0.limits.connect / u32::try_from(tried.len()).unwrap_or(1).max(1);
        let mut last = OutboundError::new(FailureKind::Resolve, "no address");
        for address in tried {
            match tokio::time::timeout(share, self.0.network.connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => {
                    last = OutboundError::new(FailureKind::Connect, format!("{address}: {error}"));
                }
                Err(_) => {
                    last = OutboundError::new(FailureKind::Timeout, format!("{address}: no connection"));
                }
            }
        }
        Err(last)
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, OutboundError>>,
) -> Result<T, OutboundError> {
    let in_time = tokio::time::timeout(limit, work).await;
    in_time.unwrap_or_else(|_| {
        Err(OutboundError::new(FailureKind::Timeout, format!("not done within {limit:?}")))
    })
}
