//! [`UpstreamClient::send`]: the only dialler. Chooses a host, dials within 2 s, waits 5 s for the first byte once the request is
//! sent, and retries nothing but a reused connection that died before any byte of the answer. One for each worker.

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

/// The reason where all tunnels of the gateway are taken (`PLATFORM_GATEWAY_MAX_TUNNELS`).
pub(crate) const TUNNELS_FULL: &str = "tunnels_full";
/// Largest answer the edge reads for itself (guards, provisioning).
const MAX_ASKED_BYTES: usize = 256 << 10;

/// A request to an upstream.
pub(crate) struct Outgoing {
    pub(crate) request: Request<()>,
    pub(crate) upload: Upload,
    /// The client asks for another protocol, so that a 101 is an answer.
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
    /// The upstream has said that it takes no head as large.
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

    /// Whether it says something about the host.
    pub(crate) const fn is_the_hosts(self) -> bool {
        let is_full =
            matches!(self, Self::OverCapacity | Self::OverShare | Self::OverTunnelShare | Self::TunnelsFull);
        !is_full && !matches!(self, Self::Client(_) | Self::HeadTooLarge)
    }
}

/// Why there is no room for a tunnel.
impl From<Full> for Failure {
    fn from(full: Full) -> Self {
        match full {
            Full::Share => Self::OverTunnelShare,
            Full::All => Self::TunnelsFull,
        }
    }
}

/// The upstreams as one worker reaches them.
#[derive(Debug)]
pub(crate) struct UpstreamClient {
    pub(crate) worker: usize,
    pub(crate) budgets: Budgets,
    tls: Arc<rustls::ClientConfig>,
}

/// A connection that was just made.
enum Dialled {
    /// For one exchange after the other.
    Link(Box<Link>),
    /// For many at once.
    Multiplexed(Multiplexed),
}

/// An attempt that brought no answer: the permit goes on, and the body where none of it was taken.
pub(crate) struct Lost {
    pub(crate) failure: Failure,
    pub(crate) permit: UpstreamPermit,
    pub(crate) upload: Option<Upload>,
}

impl UpstreamClient {
    pub(crate) const fn new(worker: usize, budgets: Budgets, tls: Arc<rustls::ClientConfig>) -> Self {
        Self { worker, budgets, tls }
    }

    /// The upstream's answer, its body streaming. `now` is the present moment: each look at the clock costs a request some
    /// 20 ns.
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
        // No timer while nobody waits.
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

    /// Over a new connection. Most requests find one, and need neither the room nor the code of this.
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

    /// A whole small answer, for the edge's own questions: within the first-byte budget from end to end.
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

    /// A connection to this host; to another one, when this one cannot be reached. The first has half of the time where there
    /// is another, so that one that swallows connections does not take the other's.
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

    /// A connection, with TLS where the host speaks it.
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

    /// The answer on a link on which the exchange has begun.
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
                // A 101 that nobody asked for, or to another protocol, is no answer to the request.
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

/// Whether a request may be done twice as well as once.
pub(crate) const fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS)
}

/// What may be sent a second time, on a fresh connection: an idempotent request whose body was not begun.
pub(crate) fn again(lost: Lost, method: &Method) -> Result<(UpstreamPermit, Upload), Failure> {
    let Lost { failure, permit, upload } = lost;
    match upload {
        Some(upload) if is_idempotent(method) && failure == Failure::Reset => Ok((permit, upload)),
        _ => Err(failure),
    }
}

/// A connection, as soon as it stands.
async fn connect(authority: &Authority) -> Result<TcpStream, Failure> {
    let address = (authority.host.as_str(), authority.port);
    let stream = TcpStream::connect(address).await.map_err(|error| dial_failure(&error))?;
    // Small requests must not wait for the peer's acknowledgement; a socket that cannot be told so still works.
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

/// How often idle connections are looked at: a closed one is noticed within this.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl UpstreamClient {
    /// Closes this worker's idle connections to an upstream that are old, or closed by the other side.
    pub(crate) fn sweep(&self, upstream: &Upstream) {
        for idle in upstream.hosts.iter().filter_map(|host| host.idle(self.worker)) {
            idle.sweep(self.budgets.pool_idle);
        }
    }
}
