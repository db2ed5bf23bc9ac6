//! One acceptor a listener: sockets in, [`Accepted`] out. Past the limit of connections it waits, so nothing is dropped
//! silently; accept errors (no free file descriptors) back off instead of spinning.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tally::{Tally, Wait};

/// Wait after an accept error: long enough not to burn a core, short enough to recover within two seconds.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A client's socket; its place among the connections is free again when this is dropped.
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) place: OwnedSemaphorePermit,
}

/// One listening socket.
pub(crate) struct Listener {
    socket: TcpListener,
    places: Arc<Semaphore>,
    tally: Tally,
}

impl Listener {
    pub(crate) const fn new(socket: TcpListener, places: Arc<Semaphore>, tally: Tally) -> Self {
        Self { socket, places, tally }
    }

    /// The next connection; `None` only when the limit itself is gone.
    pub(crate) async fn accept(&self) -> Option<Accepted> {
        let place = self.place().await?;
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot turn Nagle's algorithm off");
                    }
                    return Some(Accepted { stream, peer, place });
                }
                Err(error) => {
                    self.tally.waited(Wait::Descriptors);
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    /// A place among the connections, once there is one.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        self.tally.waited(Wait::Connections);
        Arc::clone(&self.places).acquire_owned().await.ok()
    }
}
