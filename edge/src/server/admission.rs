//! Admits accepted sockets: determines the client's address (a listed balancer sends it in a PROXY header), enforces
//! the address's connection limit, and waits for the client's first bytes.

use std::future::poll_fn;
use std::io::{self, Error, ErrorKind};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::ReadBuf;
use tokio::time::Instant;

use crate::config::EdgeConfig;
use crate::metrics::tally::{Closed, Tally};
use crate::server::addresses::Addresses;
use crate::server::evictions::Evictions;
use crate::server::handshake::Handshakes;
use crate::server::listen::Accepted;
use crate::server::proxy;

/// The checks that every connection passes; shared by all workers.
pub(crate) struct Admission {
    pub(crate) handshakes: Handshakes,
    addresses: Arc<Addresses>,
    evictions: Arc<Evictions>,
    tally: Tally,
    config: Arc<EdgeConfig>,
}

impl Admission {
    pub(crate) fn new(
        config: Arc<EdgeConfig>,
        handshakes: Handshakes,
        evictions: Arc<Evictions>,
        tally: Tally,
    ) -> Self {
        let limits = &config.limits;
        let addresses = Addresses::new(limits.connections_per_address, limits.handshakes);
        Self { handshakes, addresses, evictions, tally, config }
    }

    /// Determines the client's address, and counts the connection for that address.
    ///
    /// # Errors
    /// A balancer sends no valid PROXY header, or the address is at its connection limit.
    pub(crate) async fn admit(&self, mut accepted: Accepted) -> io::Result<Accepted> {
        let peer = accepted.peer;
        if self.config.proxies.contain(peer.ip()) {
            accepted.peer = self.introduced(&mut accepted).await?;
        }
        if self.speaks_for_many(peer, accepted.peer) {
            return Ok(accepted);
        }
        let Some(slot) = self.addresses.enter(accepted.peer.ip()) else {
            self.tally.closed(Closed::AddressLimit);
            return Err(Error::new(ErrorKind::ConnectionRefused, "the address has too many connections"));
        };
        accepted.held.count_for(slot);
        Ok(accepted)
    }

    /// Reads a listed balancer's PROXY header.
    async fn introduced(&self, accepted: &mut Accepted) -> io::Result<SocketAddr> {
        let deadline = Instant::now() + self.config.timers.head;
        let parts = proxy::client(&mut accepted.stream, accepted.peer);
        let parts = self.evictions.hear(deadline, parts).await.and_then(|parts| parts);
        self.tally.proxied(parts.is_ok());
        parts
    }

    /// Whether the address is a proxy's or balancer's, which carries the connections of all its clients.
    fn speaks_for_many(&self, peer: SocketAddr, client: SocketAddr) -> bool {
        let is_balancer = client == peer && self.config.proxies.contain(peer.ip());
        is_balancer || self.config.trusted.contain(client.ip())
    }

    /// Waits for the first byte of a client without TLS.
    pub(crate) async fn heard(&self, accepted: Accepted) -> io::Result<Accepted> {
        let deadline = Instant::now() + self.config.timers.head;
        let mut byte = [MaybeUninit::uninit()];
        let mut byte = ReadBuf::uninit(&mut byte);
        let parts = poll_fn(|context| accepted.stream.poll_peek(context, &mut byte));
        self.evictions.hear(deadline, parts).await??;
        Ok(accepted)
    }
}
