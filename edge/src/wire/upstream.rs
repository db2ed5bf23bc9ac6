//! [`Upstreams::send`]: the only dialler. Chooses a host, dials within 2 s, waits 5 s for the first byte once the request is
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

use super::Authority;
use super::body::EdgeBody;
use super::h1::call::Link;
use super::h2c::connection::{Multiplexed, ping_patience};
use super::headers::switches_as_asked;
use super::place::{Asker, Full, Place, Speaks, Turn};
use super::records::Records;
use super::socket::Socket;
use super::tunnel::Tunnel;
use super::upload::{ClientFault, Upload};
use crate::config::Budgets;

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
            Self::Client(_) => "client_body",
        }
    }

    /// Whether it says something about the host.
    pub(super) const fn is_the_hosts(self) -> bool {
        let is_full =
            matches!(self, Self::OverCapacity | Self::OverShare | Self::OverTunnelShare | Self::TunnelsFull);
        !is_full && !matches!(self, Self::Client(_))
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
pub(crate) struct Upstreams {
    pub(super) worker: usize,
    pub(super) budgets: Budgets,
    tls: Arc<rustls::ClientConfig>,
}

/// A connection that was just made.
enum Dialled {
    /// For one exchange after the other.
    Link(Box<Link>),
    /// For many at once.
    Multiplexed(Multiplexed),
}

/// An attempt that brought no answer: the turn goes on, and the body where none of it was taken.
pub(super) struct Lost {
    pub(super) failure: Failure,
    pub(super) turn: Turn,
    pub(super) upload: Option<Upload>,
}

impl Upstreams {
    pub(crate) const fn new(worker: usize, budgets: Budgets, tls: Arc<rustls::ClientConfig>) -> Self {
        Self { worker, budgets, tls }
    }

    /// The upstream's answer, its body streaming. `now` is the present moment: each look at the clock costs a request some
    /// 20 ns.
    pub(crate) async fn send(
        &self,
        place: Arc<Place>,
        asker: Asker,
        outgoing: &mut Outgoing,
        now: Instant,
    ) -> Result<Response<EdgeBody>, Failure> {
        let mut turn = place.enter(asker).ok_or(Failure::OverShare)?;
        if outgoing.upgrade {
            turn.reserve_stream()?;
        }
        let mut now = now;
        // No timer while nobody waits.
        if !turn.try_take() {
            turn = self.wait_for_turn(turn).await?;
            now = Instant::now();
        }
        let host = turn.place.choose(None).ok_or(Failure::DialFailed)?;
        turn.at(host);
        if turn.host().is_some_and(|host| host.speaks == Speaks::H2c) {
            return self.by_h2c(turn, host, outgoing).await;
        }
        let reused = turn.host().and_then(|host| host.shelf(self.worker)?.take(self.budgets.pool_idle, now));
        let Some(mut link) = reused else { return self.send_anew(turn, host, outgoing).await };
        link.begin(&outgoing.request, outgoing.upload.take(), now);
        let lost = match self.exchange(link, turn, host, outgoing).await {
            Ok(response) => return Ok(response),
            Err(lost) => lost,
        };
        let (turn, upload) = again(lost, outgoing.request.method())?;
        outgoing.upload = upload;
        self.send_anew(turn, host, outgoing).await
    }

    /// Over a new connection. Most requests find one, and need neither the room nor the code of this.
    #[cold]
    #[inline(never)]
    pub(super) fn send_anew<'a>(
        &'a self,
        turn: Turn,
        host: usize,
        outgoing: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Response<EdgeBody>, Failure>> {
        Box::pin(async move {
            let (dialled, turn, host) = self.dial(turn, host).await?;
            match dialled {
                Dialled::Link(mut link) => {
                    link.begin(&outgoing.request, outgoing.upload.take(), Instant::now());
                    self.exchange(link, turn, host, outgoing).await.map_err(|lost| lost.failure)
                }
                Dialled::Multiplexed(connection) => self.send_first(connection, turn, host, outgoing).await,
            }
        })
    }

    #[inline(never)]
    fn by_h2c<'a>(
        &'a self,
        turn: Turn,
        host: usize,
        outgoing: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Response<EdgeBody>, Failure>> {
        Box::pin(self.send_h2c(turn, host, outgoing))
    }

    /// A whole small answer, for the edge's own questions: within the first-byte budget from end to end.
    pub(crate) async fn ask(
        &self,
        place: &Arc<Place>,
        asker: Asker,
        request: Request<()>,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let mut outgoing = Outgoing { request, upload: Upload::full(body), upgrade: false };
        let whole_answer = async {
            let response = self.send(Arc::clone(place), asker, &mut outgoing, Instant::now()).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ASKED_BYTES).collect().await;
            Ok((status, body.map_err(|_| Failure::Malformed)?.to_bytes()))
        };
        let whole = self.budgets.dial + self.budgets.first_byte;
        timeout(whole, whole_answer).await.map_err(|_| Failure::FirstByteTimeout)?
    }

    #[cold]
    #[inline(never)]
    fn wait_for_turn(&self, mut turn: Turn) -> BoxFuture<'static, Result<Turn, Failure>> {
        let patience = self.budgets.dial;
        Box::pin(async move {
            let taken = timeout(patience, turn.take()).await.unwrap_or(false);
            if taken { Ok(turn) } else { Err(Failure::OverCapacity) }
        })
    }

    /// A connection to this host; to another one, when this one cannot be reached. The first has half of the time where there
    /// is another, so that one that swallows connections does not take the other's.
    async fn dial(&self, mut turn: Turn, host: usize) -> Result<(Dialled, Turn, usize), Failure> {
        let place = Arc::clone(&turn.place);
        let whole = self.budgets.dial;
        let began = Instant::now();
        let first = if place.hosts.len() > 1 { whole / 2 } else { whole };
        let (dialled, host) = match self.dial_host(&place, host, first).await {
            Ok(dialled) => (dialled, host),
            Err(failure) => {
                let other = place.choose(Some(host)).ok_or(failure)?;
                let left = whole.saturating_sub(began.elapsed());
                (self.dial_host(&place, other, left).await?, other)
            }
        };
        turn.at(host);
        if let Some(shelf) = turn.host().and_then(|host| host.shelf(self.worker)) {
            shelf.dialled();
        }
        Ok((dialled, turn, host))
    }

    async fn dial_host(&self, place: &Place, position: usize, time: Duration) -> Result<Dialled, Failure> {
        let host = place.hosts.get(position).ok_or(Failure::DialFailed)?;
        let dialled = timeout(time, async {
            let socket = self.connect(host.speaks, &host.authority).await?;
            if host.speaks != Speaks::H2c {
                return Ok(Dialled::Link(Box::new(Link::new(socket, self.worker))));
            }
            let opened = Multiplexed::open(socket, ping_patience(&self.budgets)).await;
            opened.map(Dialled::Multiplexed).map_err(|_| Failure::DialFailed)
        });
        let dialled = dialled.await.unwrap_or(Err(Failure::DialTimeout));
        dialled.inspect_err(|_| place.note(position, false))
    }

    /// A connection, with TLS where the host speaks it.
    pub(crate) async fn connect(&self, speaks: Speaks, authority: &Authority) -> Result<Socket, Failure> {
        let stream = connect(authority).await?;
        if speaks != Speaks::Https {
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
        mut turn: Turn,
        host: usize,
        outgoing: &Outgoing,
    ) -> Result<Response<EdgeBody>, Lost> {
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
                    turn.place.note(host, false);
                }
                let upload = link.unsent().filter(|_| link.was_used());
                return Err(Lost { failure, turn, upload });
            }
        };
        turn.place.note(host, true);
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            turn.go_on_as_stream();
        }
        link.hold(turn);
        let body = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let (socket, early, turn) = link.into_tunnel();
            EdgeBody::tunnel(Tunnel::new(socket, early, turn, self.budgets.stream_idle))
        } else {
            EdgeBody::link(link, self.budgets)
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// Whether a request may be done twice as well as once.
pub(super) const fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS)
}

/// What may be sent a second time, on a fresh connection: an idempotent request whose body was not begun.
pub(super) fn again(lost: Lost, method: &Method) -> Result<(Turn, Upload), Failure> {
    let Lost { failure, turn, upload } = lost;
    match upload {
        Some(upload) if is_idempotent(method) && failure == Failure::Reset => Ok((turn, upload)),
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

impl Upstreams {
    /// Closes this worker's idle connections to a place that are old, or closed by the other side.
    pub(crate) fn sweep(&self, place: &Place) {
        for shelf in place.hosts.iter().filter_map(|host| host.shelf(self.worker)) {
            shelf.sweep(self.budgets.pool_idle);
        }
    }
}
