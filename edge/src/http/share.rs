//! [`Shares`]: limits what one client holds of a resource at a time, so that no client takes all of it. All workers
//! count here without a lock: each client has one counter in each of two rows, at positions given by hashes that
//! outsiders cannot predict, and the lower of its two counters applies. Clients that share a counter may be counted too
//! high, never too low; a client is refused because of others only if it shares both counters.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counters per row. With a share of a quarter and 2,048 requests in progress a counter is off by one on average.
const COLUMNS: u64 = 2_048;

/// The client for which a request is counted: its subject, or its address if it has none. A hash whose highest bit
/// distinguishes the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientKey(u64);

/// Set in the keys of addresses. Row positions use lower bits.
const ADDRESS: u64 = 1 << 63;

impl ClientKey {
    /// A verified subject, by its hash.
    pub(crate) fn subject(hash: u64) -> Self {
        Self(keyed(&(false, hash)) & !ADDRESS)
    }

    /// The address of a request without a valid token.
    pub(crate) fn address(address: IpAddr) -> Self {
        Self(keyed(&(true, address)) | ADDRESS)
    }

    /// Whether the client has a verified subject.
    pub(crate) const fn has_subject(self) -> bool {
        self.0 & ADDRESS == 0
    }
}

fn keyed(client: &impl std::hash::Hash) -> u64 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    SECRET.hash_one(client)
}

/// One client's share of `all`: `percent` per cent, and at least [`LEAST_SHARE`].
pub(crate) fn share_of(all: usize, percent: usize) -> usize {
    (all / 100).saturating_mul(percent).saturating_add(all % 100 * percent / 100).max(LEAST_SHARE)
}

/// Several times the requests that a browser sends at once: a small upstream must not refuse a page.
const LEAST_SHARE: usize = 8;

/// Counters of clients.
#[derive(Debug)]
pub(crate) struct Shares {
    most: u32,
    rows: [Vec<AtomicU32>; 2],
}

impl Shares {
    /// Limits each client to `most`.
    pub(crate) fn new(most: usize) -> Self {
        let row = || (0..COLUMNS).map(|_| AtomicU32::new(0)).collect();
        Self { most: u32::try_from(most).unwrap_or(u32::MAX), rows: [row(), row()] }
    }

    /// Counts one more for this client; `false`, without counting, if the client is at its limit.
    pub(crate) fn enter(&self, client: ClientKey) -> bool {
        let before = self.counters(client).map(|counter| counter.fetch_add(1, Ordering::Relaxed)).min();
        let fits = before.is_some_and(|before| before < self.most);
        if !fits {
            self.leave(client);
        }
        fits
    }

    /// Counts one less for this client.
    pub(crate) fn leave(&self, client: ClientKey) {
        self.counters(client).for_each(|counter| {
            counter.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn counters(&self, client: ClientKey) -> impl Iterator<Item = &AtomicU32> {
        let columns = [client.0 % COLUMNS, client.0 / COLUMNS % COLUMNS];
        self.rows.iter().zip(columns).filter_map(|(row, column)| row.get(usize::try_from(column).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_share_and_one_more_is_refused_and_others_have_theirs() {
        let shares = Shares::new(8);
        let (one, other) = (ClientKey::subject(1), ClientKey::subject(2));
        assert!((0..8).all(|_| shares.enter(one)));
        assert!(!shares.enter(one) && !shares.enter(one), "what was refused is not counted");
        assert!((0..8).all(|_| shares.enter(other)));
        shares.leave(one);
        assert!(shares.enter(one) && !shares.enter(one));
    }

    #[test]
    fn a_subject_and_an_address_are_different_clients() {
        let address: IpAddr = "127.0.0.1".parse().expect("an address");
        assert_eq!(ClientKey::address(address), ClientKey::address(address));
        assert_ne!(ClientKey::subject(0), ClientKey::address(address));
        assert!((0..64).all(|subject| ClientKey::subject(subject).has_subject()));
        assert!(!ClientKey::address(address).has_subject());
    }

    #[test]
    fn a_thousand_clients_that_hold_one_each_take_nothing_from_another() {
        let shares = Shares::new(8);
        assert!((0..1_000).all(|client| shares.enter(ClientKey::subject(client))));
        let refused = (1_000..2_000).filter(|client| {
            let client = ClientKey::subject(*client);
            let entered = (0..4).take_while(|_| shares.enter(client)).count();
            (0..entered).for_each(|_| shares.leave(client));
            entered < 4
        });
        assert_eq!(refused.count(), 0);
    }

    #[test]
    fn a_share_is_a_part_of_all_and_never_less_than_eight() {
        assert_eq!(share_of(1_024, 25), 256);
        assert_eq!(share_of(1_024, 100), 1_024);
        assert_eq!([share_of(1, 25), share_of(32, 25), share_of(36, 25)], [8, 8, 9]);
        assert_eq!(share_of(usize::MAX, 100), usize::MAX);
    }
}
