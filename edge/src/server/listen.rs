//! One acceptor per listener: sockets in, [`Accepted`] out. At the connection limit it waits and asks for room, which
//! only silent or idle connections make. Accept errors (no free file descriptors) back off instead of spinning.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;
use tokio::time::timeout;

use crate::control::drain::Drain;
use crate::metrics::tally::{Tally, Wait};
use crate::server::addresses::Slot;
use crate::server::evictions::Evictions;

/// Wait after an accept error: long enough not to burn a core, short enough to recover within two seconds.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A client's socket.
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) held: Held,
}

/// A connection's share of the limits: its permit among all connections, and its slot among those of its address.
/// Dropping it releases both.
pub(crate) struct Held {
    _place: OwnedSemaphorePermit,
    slot: Option<Slot>,
}

impl Held {
    pub(crate) fn count_for(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    /// The connection's slot among those of its address; `None` if it is not counted.
    pub(crate) const fn slot(&self) -> Option<&Slot> {
        self.slot.as_ref()
    }
}

/// Raises the socket's backlog to what the system allows (`net.core.somaxconn`): beyond it a client gets no answer and
/// retries a second later. Also sets `TCP_NODELAY`, which accepted sockets inherit without a call of their own.
pub(crate) fn prepared(socket: TcpListener) -> io::Result<std::net::TcpListener> {
    rustix::net::listen(&socket, i32::MAX)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    socket.into_std()
}

/// One listening socket.
pub(crate) struct Listener {
    socket: TcpListener,
    places: Arc<Semaphore>,
    evictions: Arc<Evictions>,
    tally: Tally,
}

impl Listener {
    /// Registers a prepared socket with the current runtime.
    pub(crate) fn new(
        socket: std::net::TcpListener,
        places: Arc<Semaphore>,
        evictions: Arc<Evictions>,
        tally: Tally,
    ) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::from_std(socket)?, places, evictions, tally })
    }

    /// Hands over every connection until the drain begins, and then those already in the backlog: the system has
    /// completed their TCP handshakes, and closing the socket would reset them.
    pub(crate) async fn accept_until(&self, drain: &Drain, give: impl Fn(Accepted)) {
        let all = async || {
            while let Some(accepted) = self.accept().await {
                give(accepted);
            }
        };
        drain.run_until(all()).await;
        // Unconstrained, because the task's cooperative budget would end it early. The connection limit bounds it.
        let _no_more = timeout(Duration::ZERO, unconstrained(all())).await;
    }

    /// Accepts the next connection once there is a permit for it; `None` only when the semaphore is closed.
    async fn accept(&self) -> Option<Accepted> {
        let (stream, peer) = self.next().await;
        let held = Held { _place: self.place().await?, slot: None };
        Some(Accepted { stream, peer, held })
    }

    async fn next(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok(next) => return next,
                Err(error) => {
                    self.tally.waited(Wait::Descriptors);
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    /// Acquires a connection permit, waiting until there is one.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        self.tally.waited(Wait::Connections);
        let _room = self.evictions.want();
        Arc::clone(&self.places).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use telemetry::Metrics;

    use super::*;

    /// A listener with this many connection permits.
    async fn listening(places: usize) -> (Listener, SocketAddr) {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = socket.local_addr().expect("its address");
        let socket = prepared(socket).expect("a socket");
        let metrics = Metrics::new("gateway", "0", "test").expect("a registry");
        let tally = Tally::new(&metrics).expect("its families");
        let evictions = Arc::new(Evictions::new(Drain::default(), tally.clone()));
        let places = Arc::new(Semaphore::new(places));
        (Listener::new(socket, places, evictions, tally).expect("a listener"), address)
    }

    async fn client(address: SocketAddr) -> (TcpStream, SocketAddr) {
        let client = TcpStream::connect(address).await.expect("connects");
        let own = client.local_addr().expect("its address");
        (client, own)
    }

    /// More than a task does within its cooperative budget.
    const WAITING: usize = 300;

    #[tokio::test]
    async fn what_is_accepted_sends_at_once() {
        let (listener, address) = listening(1).await;
        let _client = client(address).await;
        let accepted = listener.accept().await.expect("a connection");
        assert!(accepted.stream.nodelay().expect("a socket"), "as its listener does");
    }

    #[tokio::test]
    async fn those_that_wait_when_the_drain_begins_are_given_and_nobody_is_waited_for() {
        let (listener, address) = listening(WAITING).await;
        let mut clients = Vec::new();
        for _ in 0..WAITING {
            clients.push(client(address).await);
        }
        let drain = Drain::default();
        drain.begin();
        let given = RefCell::new(Vec::new());
        let accepted = RefCell::new(Vec::new());
        let give = |one: Accepted| {
            given.borrow_mut().push(one.peer);
            accepted.borrow_mut().push(one);
        };
        listener.accept_until(&drain, give).await;
        let waited: Vec<SocketAddr> = clients.iter().map(|(_, own)| *own).collect();
        assert_eq!(given.into_inner(), waited);
    }
}
