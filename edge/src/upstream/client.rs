//! [`UpstreamClient::send`] sends a request to an upstream. It chooses a host, dials within 2 s, waits 5 s for the
//! first byte once the request is sent, and retries only when a reused connection died before any byte of the answer.
//! Each worker has its own client.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use rustls_pki_types::ServerName;
use std::future::poll_fn;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::body::upload::{ClientFault, Upload};
use crate::config::{Authority, Budgets, UpstreamProtocol};
use crate::http::headers::switches_as_asked;
use crate::tls::records::Records;
use crate::upstream::answer::AnswerBody;
use crate::upstream::http1::Link;
use crate::upstream::http2::connection::{Multiplexed, ping_patience};
use crate::upstream::socket::Socket;
use crate::upstream::target::{Asker, Full, Upstream, UpstreamPermit};
use crate::upstream::tunnel::Tunnel;

/// The reason when all tunnels of the gateway are in use (`PLATFORM_GATEWAY_MAX_TUNNELS`).
pub(crate) const TUNNELS_FULL: &str = "tunnels_full";
/// The largest answer the gateway reads for itself (guards, provisioning).
const MAX_ASKED_BYTES: usize = 256 << 10;

/// A request to an upstream.
pub(crate) struct Outgoing {
    pub(crate) request: Request<()>,
    pub(crate) upload: Upload,
    /// The client asks for another protocol, so a 101 is a valid answer.
    pub(crate) upgrade: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("dial_timeout")]
    DialTimeout,
    #[error("connect_refused")]
    ConnectRefused,
    #[error("dial_failed")]
    DialFailed,
    #[error("over_capacity")]
    OverCapacity,
    #[error("over_share")]
    OverShare,
    #[error("over_tunnel_share")]
    OverTunnelShare,
    #[error("tunnels_full")]
    TunnelsFull,
    #[error("first_byte_timeout")]
    FirstByteTimeout,
    #[error("body_timeout")]
    BodyTimeout,
    #[error("reset")]
    Reset,
    #[error("malformed_answer")]
    Malformed,
    /// More informational answers than a request may have.
    #[error("bad_answer")]
    BadAnswer,
    /// The upstream has announced that it does not accept a head this large.
    #[error("headers_too_large")]
    HeadTooLarge,
    #[error("client: {0}")]
    Client(ClientFault),
}

impl Failure {
    /// A stable word for the access log and the details of a 503.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::DialTimeout => "dial_timeout",
            Self::ConnectRefused => "connect_refused",
            Self::DialFailed => "dial_failed",
            Self::OverCapacity => "over_capacity",
            Self::OverShare => "over_share",
            Self::OverTunnelShare => "over_tunnel_share",
            Self::TunnelsFull => TUNNELS_FULL,
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::Reset => "reset",
            Self::Malformed => "malformed_answer",
            Self::BadAnswer => "bad_answer",
            Self::HeadTooLarge => "headers_too_large",
            Self::Client(_) => "client_body",
        }
    }

    /// Whether the request was refused before any of it was sent: a limit is reached, or the upstream accepts no head
    /// this large.
    pub(crate) const fn is_before_forwarding(self) -> bool {
        matches!(
            self,
            Self::OverCapacity
                | Self::OverShare
                | Self::OverTunnelShare
                | Self::TunnelsFull
                | Self::HeadTooLarge
        )
    }

    /// Whether the failure says something about the host.
    pub(crate) const fn is_the_hosts(self) -> bool {
        !self.is_before_forwarding() && !matches!(self, Self::Client(_))
    }
}

/// Why a tunnel gets no permit.
impl From<Full> for Failure {
    fn from(full: Full) -> Self {
        match full {
            Full::Share => Self::OverTunnelShare,
            Full::All => Self::TunnelsFull,
        }
    }
}

/// One worker's client of all upstreams.
#[derive(Debug)]
pub(crate) struct UpstreamClient {
    pub(crate) worker: usize,
    pub(crate) budgets: Budgets,
    tls: Arc<rustls::ClientConfig>,
}

/// A newly dialled connection.
enum Dialled {
    /// Carries one exchange at a time.
    Link(Box<Link>),
    /// Carries many exchanges at once.
    Multiplexed(Multiplexed),
}

/// An attempt without an answer: the permit is reused, and so is the body if none of it was taken.
pub(crate) struct Lost {
    pub(crate) failure: Failure,
    pub(crate) permit: UpstreamPermit,
    pub(crate) upload: Option<Upload>,
}

impl UpstreamClient {
    pub(crate) const fn new(worker: usize, budgets: Budgets, tls: Arc<rustls::ClientConfig>) -> Self {
        Self { worker, budgets, tls }
    }

    /// Returns the upstream's answer, its body streaming. `now` is the current time: each clock read costs a request
    /// some 20 ns.
    pub(crate) async fn send(
        &self,
        upstream: Arc<Upstream>,
        asker: Asker,
        outgoing: &mut Outgoing,
        now: Instant,
    ) -> Result<Response<AnswerBody>, Failure> {
        let mut permit = upstream.enter(asker).ok_or(Failure::OverShare)?;
        if outgoing.upgrade {
            permit.reserve_stream()?;
        }
        let mut now = now;
        // No timer unless the request must wait.
        if !permit.try_take() {
            permit = self.wait_for_permit(permit).await?;
            now = Instant::now();
        }
        let host = permit.upstream.choose(None).ok_or(Failure::DialFailed)?;
        permit.at(host);
        if permit.host().is_some_and(|host| host.speaks == UpstreamProtocol::H2c) {
            return self.by_h2c(permit, host, outgoing).await;
        }
        let reused = permit.host().and_then(|host| host.idle(self.worker)?.take(self.budgets.pool_idle, now));
        let Some(mut link) = reused else { return self.send_anew(permit, host, outgoing).await };
        link.begin(&outgoing.request, outgoing.upload.take(), now);
        let lost = match self.exchange(link, permit, host, outgoing).await {
            Ok(response) => return Ok(response),
            Err(lost) => lost,
        };
        let (permit, upload) = again(lost, outgoing.request.method())?;
        outgoing.upload = upload;
        self.send_anew(permit, host, outgoing).await
    }

    /// Sends over a new connection. Most requests reuse one and need neither the space nor the code of this.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_anew<'a>(
        &'a self,
        permit: UpstreamPermit,
        host: usize,
        outgoing: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Response<AnswerBody>, Failure>> {
        Box::pin(async move {
            let (dialled, permit, host) = self.dial(permit, host).await?;
            match dialled {
                Dialled::Link(mut link) => {
                    link.begin(&outgoing.request, outgoing.upload.take(), Instant::now());
                    self.exchange(link, permit, host, outgoing).await.map_err(|lost| lost.failure)
                }
                Dialled::Multiplexed(connection) => self.send_first(connection, permit, host, outgoing).await,
            }
        })
    }

    #[inline(never)]
    fn by_h2c<'a>(
        &'a self,
        permit: UpstreamPermit,
        host: usize,
        outgoing: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Response<AnswerBody>, Failure>> {
        Box::pin(self.send_h2c(permit, host, outgoing))
    }

    /// Returns a complete small answer, for the gateway's own questions; dialling and first-byte budgets together bound
    /// the whole exchange.
    pub(crate) async fn ask(
        &self,
        upstream: &Arc<Upstream>,
        asker: Asker,
        request: Request<()>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let mut outgoing = Outgoing { request, upload: Upload::full(body), upgrade: false };
        let whole_answer = async {
            let response = self.send(Arc::clone(upstream), asker, &mut outgoing, Instant::now()).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ASKED_BYTES).collect().await;
            Ok((status, body.map_err(|_| Failure::Malformed)?.to_bytes()))
        };
        let whole = self.budgets.dial + self.budgets.first_byte;
        timeout(whole, whole_answer).await.map_err(|_| Failure::FirstByteTimeout)?
    }

    #[cold]
    #[inline(never)]
    fn wait_for_permit(
        &self,
        mut permit: UpstreamPermit,
    ) -> BoxFuture<'static, Result<UpstreamPermit, Failure>> {
        let patience = self.budgets.dial;
        Box::pin(async move {
            let taken = timeout(patience, permit.take()).await.unwrap_or(false);
            if taken { Ok(permit) } else { Err(Failure::OverCapacity) }
        })
    }

    /// Dials this host, or another if this one cannot be reached. If there is another, the first attempt gets half of
    /// the time, so that a host that drops packets does not use up the other's.
    async fn dial(
        &self,
        mut permit: UpstreamPermit,
        host: usize,
    ) -> Result<(Dialled, UpstreamPermit, usize), Failure> {
        let upstream = Arc::clone(&permit.upstream);
        let whole = self.budgets.dial;
        let began = Instant::now();
        let first = if upstream.hosts.len() > 1 { whole / 2 } else { whole };
        let (dialled, host) = match self.dial_host(&upstream, host, first).await {
            Ok(dialled) => (dialled, host),
            Err(failure) => {
                let other = upstream.choose(Some(host)).ok_or(failure)?;
                let left = whole.saturating_sub(began.elapsed());
                (self.dial_host(&upstream, other, left).await?, other)
            }
        };
        permit.at(host);
        if let Some(idle) = permit.host().and_then(|host| host.idle(self.worker)) {
            idle.dialled();
        }
        Ok((dialled, permit, host))
    }

    async fn dial_host(
        &self,
        upstream: &Upstream,
        position: usize,
        time: Duration,
    ) -> Result<Dialled, Failure> {
        let host = upstream.hosts.get(position).ok_or(Failure::DialFailed)?;
        let dialled = timeout(time, async {
            let socket = self.connect(host.speaks, &host.authority).await?;
            if host.speaks != UpstreamProtocol::H2c {
                return Ok(Dialled::Link(Box::new(Link::new(socket, self.worker))));
            }
            let opened = Multiplexed::open(socket, ping_patience(&self.budgets)).await;
            opened.map(Dialled::Multiplexed).map_err(|_| Failure::DialFailed)
        });
        let dialled = dialled.await.unwrap_or(Err(Failure::DialTimeout));
        dialled.inspect_err(|_| upstream.note(position, false))
    }

    /// Opens a connection, with TLS where the host requires it.
    pub(crate) async fn connect(
        &self,
        speaks: UpstreamProtocol,
        authority: &Authority,
    ) -> Result<Socket, Failure> {
        let stream = connect(authority).await?;
        if speaks != UpstreamProtocol::Https {
            return Ok(Socket::plain(stream));
        }
        let name = ServerName::try_from(authority.host.clone()).map_err(|_| Failure::DialFailed)?;
        let secured = TlsConnector::from(Arc::clone(&self.tls)).connect(name, Records::new(stream)).await;
        let secured = secured.inspect_err(|error| {
            tracing::warn!(host = %authority.host_header(), %error, "TLS with an upstream failed");
        });
        secured.map(Socket::tls).map_err(|_| Failure::DialFailed)
    }

    /// Reads the answer on a link on which the exchange has started.
    async fn exchange(
        &self,
        mut link: Box<Link>,
        mut permit: UpstreamPermit,
        host: usize,
        outgoing: &Outgoing,
    ) -> Result<Response<AnswerBody>, Lost> {
        let method = outgoing.request.method();
        let switches =
            |head: &HeaderMap| outgoing.upgrade && switches_as_asked(outgoing.request.headers(), head);
        let answered = poll_fn(|context| link.poll_head(context, method, &self.budgets)).await;
        let head = match answered {
            Ok(head) if head.status != StatusCode::SWITCHING_PROTOCOLS || switches(&head.headers) => head,
            answered => {
                // A 101 that was not requested, or to another protocol, is no answer to the request.
                let failure = answered.err().unwrap_or(Failure::Malformed);
                if failure.is_the_hosts() && !link.was_used() {
                    permit.upstream.note(host, false);
                }
                let upload = link.unsent().filter(|_| link.was_used());
                return Err(Lost { failure, permit, upload });
            }
        };
        permit.upstream.note(host, true);
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            permit.go_on_as_stream();
        }
        link.hold(permit);
        let body = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let (socket, early, permit) = link.into_tunnel();
            AnswerBody::tunnel(Tunnel::new(socket, early, permit, self.budgets.stream_idle))
        } else {
            AnswerBody::link(link, self.budgets)
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// Whether the method is idempotent.
pub(crate) const fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS)
}

/// Decides whether to retry on a new connection: only an idempotent request whose body has not been started.
pub(crate) fn again(lost: Lost, method: &Method) -> Result<(UpstreamPermit, Upload), Failure> {
    let Lost { failure, permit, upload } = lost;
    match upload {
        Some(upload) if is_idempotent(method) && failure == Failure::Reset => Ok((permit, upload)),
        _ => Err(failure),
    }
}

/// Opens a TCP connection.
async fn connect(authority: &Authority) -> Result<TcpStream, Failure> {
    let address = (authority.host.as_str(), authority.port);
    let stream = TcpStream::connect(address).await.map_err(|error| dial_failure(&error))?;
    // Small requests must not wait for the peer's acknowledgement; a socket that rejects the option still works.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn Nagle's algorithm off");
    }
    Ok(stream)
}

fn dial_failure(error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::ConnectionRefused {
        Failure::ConnectRefused
    } else if error.kind() == ErrorKind::TimedOut {
        Failure::DialTimeout
    } else {
        Failure::DialFailed
    }
}

/// How often idle connections are checked: a closed one is noticed within this time.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl UpstreamClient {
    /// Closes this worker's idle connections to an upstream that are too old or were closed by the upstream.
    pub(crate) fn sweep(&self, upstream: &Upstream) {
        for idle in upstream.hosts.iter().filter_map(|host| host.idle(self.worker)) {
            idle.sweep(self.budgets.pool_idle);
        }
    }
}
