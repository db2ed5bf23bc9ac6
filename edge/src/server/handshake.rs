//! TLS handshakes: a bounded number at once, each within its deadline, with the current certificate. A handshake starts
//! once its `ClientHello` has arrived; an unacceptable ticket leads to a full handshake.

use crate::http::peer::Scheme;
use crate::tls::ALPN_H2;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{HandshakeKind, ProtocolVersion};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::StartHandshake;
use tokio_rustls::server::TlsStream;

use crate::config::{Limits, Timers};
use crate::control::drain::Drain;
use crate::metrics::tally::{Tally, Wait};
use crate::server::activity::Protocol;
use crate::server::addresses::Slot;
use crate::server::evictions::Evictions;
use crate::server::listen::{Accepted, Held};
use crate::tls::certificates::Certificates;
use crate::tls::hello;
use crate::tls::hello::Hello;
use crate::tls::sending::Sending;

/// A client's connection, ready to speak HTTP.
pub(crate) struct Secured<S> {
    pub(crate) stream: S,
    pub(crate) peer: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) scheme: Scheme,
    pub(crate) held: Held,
}

impl Secured<TlsStream<Sending>> {
    /// The negotiated TLS version.
    pub(crate) fn version(&self) -> &'static str {
        match self.stream.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            _ => "other",
        }
    }
}

/// Terminates TLS.
pub(crate) struct Handshakes {
    certificates: Arc<Certificates>,
    evictions: Arc<Evictions>,
    /// Permits for any handshake.
    common: HandshakeLimit,
    /// Permits for an address's only handshake: exhausting them takes as many addresses.
    firsts: HandshakeLimit,
    timers: Timers,
    tally: Tally,
}

/// A client whose `ClientHello` has arrived.
pub(crate) struct Greeted {
    accepted: Accepted,
    hello: Box<Hello>,
    /// The deadline of the whole handshake.
    deadline: Instant,
}

/// Handshake permits. A handshake that waits for its client is closed when another waits for its permit.
struct HandshakeLimit {
    free: Semaphore,
    stalled: Evictions,
}

/// A handshake's permit among all, and among those of its address.
struct HandshakePermit<'a> {
    stalled: &'a Evictions,
    _of_all: SemaphorePermit<'a>,
    _of_address: Option<SemaphorePermit<'a>>,
}

impl HandshakeLimit {
    fn new(places: usize, drain: Drain, tally: Tally) -> Self {
        Self { free: Semaphore::new(places), stalled: Evictions::new(drain, tally) }
    }

    fn take_at_once<'a>(
        &'a self,
        of_address: &mut Option<SemaphorePermit<'a>>,
    ) -> Option<HandshakePermit<'a>> {
        let of_all = self.free.try_acquire().ok()?;
        Some(HandshakePermit { stalled: &self.stalled, _of_all: of_all, _of_address: of_address.take() })
    }

    async fn take(&self) -> io::Result<(&Evictions, SemaphorePermit<'_>)> {
        let _room = self.stalled.want();
        let of_all = self.free.acquire().await.map_err(io::Error::other)?;
        Ok((&self.stalled, of_all))
    }
}

impl Handshakes {
    pub(crate) fn new(
        certificates: Arc<Certificates>,
        evictions: Arc<Evictions>,
        drain: &Drain,
        limits: &Limits,
        timers: Timers,
        tally: Tally,
    ) -> Self {
        let firsts = limits.handshakes / 2;
        let common = HandshakeLimit::new(limits.handshakes - firsts, drain.clone(), tally.clone());
        let firsts = HandshakeLimit::new(firsts, drain.clone(), tally.clone());
        Self { certificates, evictions, common, firsts, timers, tally }
    }

    /// Waits for the `ClientHello`. Separate from the handshake, so that a silent client does not reserve memory for one.
    pub(crate) async fn greet(&self, mut accepted: Accepted) -> io::Result<Greeted> {
        let deadline = Instant::now() + self.timers.tls;
        let hello = hello::read(&mut accepted.stream, self.certificates.verify_clients());
        let hello = self.evictions.hear(deadline, hello).await??;
        Ok(Greeted { accepted, hello, deadline })
    }

    /// Performs the handshake once there is a permit for it.
    pub(crate) async fn handshake(&self, greeted: Greeted) -> io::Result<Secured<TlsStream<Sending>>> {
        let Greeted { accepted: Accepted { stream, peer, held }, hello, deadline } = greeted;
        let turn = match self.turn_at_once(held.slot()) {
            Some(turn) => turn,
            None => {
                timeout_at(deadline, self.turn(held.slot())).await.map_err(|_| io::ErrorKind::TimedOut)??
            }
        };
        let stream = turn.stalled.hear(deadline, self.shake(stream, *hello)).await??;
        drop(turn);
        let h2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
        let protocol = if h2 { Protocol::Http2 } else { Protocol::Http1 };
        Ok(Secured { stream, peer, protocol, scheme: Scheme::Https, held })
    }

    /// Waits for the address's own permit first, so that its handshakes do not block those of other addresses.
    async fn turn<'a>(&'a self, slot: Option<&'a Slot>) -> io::Result<HandshakePermit<'a>> {
        self.tally.waited(Wait::Handshakes);
        let of_address = match slot {
            Some(slot) => Some(slot.handshakes().acquire().await.map_err(io::Error::other)?),
            None => None,
        };
        let (stalled, of_all) = if is_first(slot) {
            tokio::select! {
                taken = self.firsts.take() => taken?,
                taken = self.common.take() => taken?,
            }
        } else {
            self.common.take().await?
        };
        Ok(HandshakePermit { stalled, _of_all: of_all, _of_address: of_address })
    }

    fn turn_at_once<'a>(&'a self, slot: Option<&'a Slot>) -> Option<HandshakePermit<'a>> {
        let mut of_address = slot.map(|slot| slot.handshakes().try_acquire()).transpose().ok()?;
        let first = is_first(slot).then(|| self.firsts.take_at_once(&mut of_address)).flatten();
        first.or_else(|| self.common.take_at_once(&mut of_address))
    }

    async fn shake(&self, stream: TcpStream, hello: Hello) -> io::Result<TlsStream<Sending>> {
        let Hello { accepted, bytes } = hello;
        let set = self.certificates.present();
        let (mut known, mut anew) = (false, Ok(()));
        let start = StartHandshake::from_parts(accepted, Sending::new(stream));
        let shaking = start.into_stream_with(set.config(), |session| {
            if session.handshake_kind() != Some(HandshakeKind::Resumed) {
                return;
            }
            known = set.may_go_on(session);
            if let (false, Some(bytes), Some(full)) = (known, &bytes, set.full()) {
                anew = hello::begin_anew(bytes, full).map(|fresh| *session = fresh);
            }
        });
        anew?;
        let mut stream = shaking.await?;
        // A ticket may have come with a second ClientHello, and the authorities may have changed meanwhile.
        if !((known || set.may_go_on(stream.get_ref().1)) && self.certificates.confirm(&set)) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the client's certificate is no longer valid",
            ));
        }
        let (socket, session) = stream.get_mut();
        socket.settle();
        if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            // The client sends nothing until it has received the server's last handshake messages.
            stream.flush().await?;
        }
        Ok(stream)
    }
}

/// Whether the handshake is the only one of its address. Behind a balancer all clients share one address and are not
/// counted, so each counts as the only one.
fn is_first(slot: Option<&Slot>) -> bool {
    slot.is_none_or(Slot::has_one_handshake)
}

/// A connection of the listener without TLS.
pub(crate) fn plain(accepted: Accepted) -> Secured<TcpStream> {
    let Accepted { stream, peer, held } = accepted;
    Secured { stream, peer, protocol: Protocol::Http1, scheme: Scheme::Http, held }
}
