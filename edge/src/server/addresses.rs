//! Connections by client address: limits each address's connections, and its share of the handshake permits. Only
//! addresses with open connections are kept, so there are never more entries than connections.

use crate::http::peer::client;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// An address holds at most this fraction (one in `SHARE`) of the handshake permits.
const SHARE: usize = 4;
/// But at least this many, or all if there are fewer: a browser opens six connections at once.
const LEAST_SHARE: usize = 8;

/// All addresses with open connections. The lock is taken when a connection starts and when it ends.
#[derive(Debug)]
pub(crate) struct Addresses {
    most: Option<usize>,
    handshakes: usize,
    /// Clients choose their addresses, so the hashes must be unpredictable.
    known: Mutex<HashMap<IpAddr, Known, RandomState>>,
}

#[derive(Debug)]
struct Known {
    open: usize,
    handshakes: Arc<Semaphore>,
}

/// One connection of an address, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    addresses: Arc<Addresses>,
    address: IpAddr,
    handshakes: Arc<Semaphore>,
}

impl Addresses {
    /// Allows at most `most` connections per address, and a share of `handshakes`.
    pub(crate) fn new(most: Option<usize>, handshakes: usize) -> Arc<Self> {
        let handshakes = (handshakes / SHARE).max(LEAST_SHARE);
        Arc::new(Self { most, handshakes, known: Mutex::default() })
    }

    /// Counts a connection; `None` when its address is at the limit.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let address = client(address);
        let mut known = self.lock();
        let of_address = known
            .entry(address)
            .or_insert_with(|| Known { open: 0, handshakes: Arc::new(Semaphore::new(self.handshakes)) });
        if self.most.is_some_and(|most| of_address.open >= most) {
            return None;
        }
        of_address.open += 1;
        let handshakes = Arc::clone(&of_address.handshakes);
        drop(known);
        Some(Slot { addresses: Arc::clone(self), address, handshakes })
    }

    fn leave(&self, address: IpAddr) {
        let mut known = self.lock();
        let Some(of_address) = known.get_mut(&address) else { return };
        of_address.open = of_address.open.saturating_sub(1);
        if of_address.open == 0 {
            known.remove(&address);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Known, RandomState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The address's handshake permits.
    pub(crate) fn handshakes(&self) -> &Semaphore {
        &self.handshakes
    }

    /// Whether exactly one of those permits is taken.
    pub(crate) fn has_one_handshake(&self) -> bool {
        self.handshakes.available_permits() + 1 == self.addresses.handshakes
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.addresses.leave(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_so_many_connections_and_another_its_own() {
        let addresses = Addresses::new(Some(2), 256);
        let (one, other) = (address("203.0.113.1"), address("203.0.113.2"));
        let first = addresses.enter(one);
        let second = addresses.enter(one);
        assert!(first.is_some() && second.is_some(), "at the limit");
        assert!(addresses.enter(one).is_none(), "one past it");
        assert!(addresses.enter(address("::ffff:203.0.113.1")).is_none(), "written otherwise");
        assert!(addresses.enter(other).is_some());
        drop(first);
        assert!(addresses.enter(one).is_some(), "one has left");
        drop(second);
        assert!(addresses.lock().is_empty(), "addresses without connections are not kept");
    }

    #[test]
    fn an_ipv6_client_has_a_whole_network() {
        let addresses = Addresses::new(Some(1), 256);
        let first = addresses.enter(address("2001:db8:1:2::1"));
        assert!(first.is_some());
        assert!(addresses.enter(address("2001:db8:1:2:ffff::1")).is_none(), "the same /64");
        assert!(addresses.enter(address("2001:db8:1:3::1")).is_some(), "the next one");
    }

    #[test]
    fn without_a_limit_any_number_is_let_in() {
        let addresses = Addresses::new(None, 256);
        let one = address("203.0.113.1");
        let slots: Vec<_> = (0..2_000).map(|_| addresses.enter(one).expect("no limit")).collect();
        assert_eq!(addresses.lock().values().map(|known| known.open).sum::<usize>(), 2_000);
        drop(slots);
        assert!(addresses.lock().is_empty());
    }

    #[test]
    fn an_address_has_a_quarter_of_the_handshakes_and_at_least_eight() {
        for (all, share) in [(256, 64), (40, 10), (32, 8), (2, 8)] {
            let slot = Addresses::new(None, all).enter(address("203.0.113.1")).expect("no limit");
            let held: Vec<_> = std::iter::from_fn(|| slot.handshakes().try_acquire().ok()).collect();
            assert_eq!(held.len(), share, "of {all}");
        }
    }
}
