//! Rate limits: one token bucket per subject and, for requests without a valid token, one per client address. A bucket
//! is one number (the time at which it is full again), so it costs one map entry; full buckets are removed.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contract::{Subject, forwarded};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::config::{Rate, Rates};
use crate::http::peer;
use crate::pipeline::guard::Guarded;
use crate::pipeline::refusal::Refusal;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Locks: enough that two cores rarely contend for the same one.
const SHARDS: usize = 16;
const SHARD_COUNT: u64 = 16;
/// Buckets per shard: a million in total, as many as there are provisioned subjects.
const MAX_BUCKETS: usize = 62_500;
/// Buckets that one scan must free at least; otherwise nearly every request of a flood would scan the whole shard.
const LEAST_ROOM: usize = MAX_BUCKETS / 8;

/// Both limits of this gateway, each if configured.
#[derive(Debug)]
pub(crate) struct RateLimits {
    subjects: Option<Buckets<Subject>>,
    addresses: Option<Buckets<IpAddr>>,
}

/// A bucket's result, reported on every answer, regardless of its status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) scope: &'static str,
    pub(crate) allowed: bool,
    rate: Rate,
    remaining: u64,
    /// Time until the next request is allowed, or, if this one is, until the bucket is full.
    reset: Duration,
}

impl RateLimits {
    pub(crate) fn new(rates: Rates) -> Self {
        Self {
            subjects: rates.subject.map(|rate| Buckets::new("subject", rate)),
            addresses: rates.address.map(|rate| Buckets::new("address", rate)),
        }
    }

    /// Takes one request from a verified subject's bucket.
    pub(crate) fn subject(&self, subject: &Subject) -> Option<Taken> {
        Some(self.subjects.as_ref()?.take(subject, Instant::now()))
    }

    /// Takes one request without a valid token from its address's bucket.
    pub(crate) fn anonymous(&self, guarded: &Guarded) -> Option<Taken> {
        let buckets = self.addresses.as_ref()?;
        Some(buckets.take(&address_of(guarded), Instant::now()))
    }
}

impl Taken {
    /// The refusal if the bucket was empty.
    pub(crate) fn refusal(self) -> Option<Refusal> {
        (!self.allowed).then_some(Refusal::RateLimited { scope: self.scope, retry_after: self.seconds() })
    }

    /// Sets the headers that report the limit to the client.
    pub(crate) fn mark(self, headers: &mut HeaderMap) {
        let Rate { requests, window } = self.rate;
        let policy = format!("\"{}\";q={requests};w={}", self.scope, window.as_secs());
        let limit = format!("\"{}\";r={};t={}", self.scope, self.remaining, self.seconds());
        for (name, value) in [(POLICY, policy), (LIMIT, limit)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }

    /// Whole seconds, rounded up, so that a client that waits this long is admitted.
    fn seconds(self) -> u64 {
        self.reset.as_secs() + u64::from(self.reset.subsec_nanos() > 0)
    }
}

#[derive(Debug)]
struct Buckets<K> {
    scope: &'static str,
    rate: Rate,
    /// The share of the window that one request costs.
    interval: Duration,
    hasher: RandomState,
    shards: [Mutex<HashMap<K, Instant>>; SHARDS],
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn new(scope: &'static str, rate: Rate) -> Self {
        let nanos = rate.window.as_nanos() / u128::from(rate.requests.max(1));
        let interval = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let shards = std::array::from_fn(|_| Mutex::new(HashMap::new()));
        Self { scope, rate, interval, hasher: RandomState::new(), shards }
    }

    #[inline(never)]
    fn take(&self, key: &K, now: Instant) -> Taken {
        let index = usize::try_from(self.hasher.hash_one(key) % SHARD_COUNT).unwrap_or_default();
        let Some(shard) = self.shards.get(index) else { return self.taken(true, Duration::ZERO) };
        let mut buckets = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = buckets.get(key).copied().unwrap_or(now).max(now);
        let then = full_at + self.interval;
        let owed = then.duration_since(now);
        if let Some(late) = owed.checked_sub(self.rate.window).filter(|late| !late.is_zero()) {
            return self.taken(false, late);
        }
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(key) {
            make_room(&mut buckets, now);
        }
        buckets.insert(key.clone(), then);
        drop(buckets);
        self.taken(true, owed)
    }

    fn taken(&self, allowed: bool, reset: Duration) -> Taken {
        let free = if allowed { self.rate.window.saturating_sub(reset) } else { Duration::ZERO };
        let remaining = free.as_nanos().checked_div(self.interval.as_nanos()).unwrap_or_default();
        let remaining = u64::try_from(remaining).unwrap_or(u64::MAX).min(self.rate.requests);
        Taken { scope: self.scope, allowed, rate: self.rate, remaining, reset }
    }
}

/// Removes full buckets; if that frees too few, also the half that will be full soonest.
fn make_room<K: Eq + Hash>(buckets: &mut HashMap<K, Instant>, now: Instant) {
    buckets.retain(|_, full_at| *full_at > now);
    if buckets.len() <= MAX_BUCKETS - LEAST_ROOM {
        return;
    }
    let mut times: Vec<Instant> = buckets.values().copied().collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    buckets.retain(|_, full_at| *full_at > median);
}

/// Returns the address of a request's client.
pub(crate) fn address_of(guarded: &Guarded) -> IpAddr {
    client(guarded.peer.address.ip(), guarded.behind_trusted_proxy, guarded.request.headers())
}

/// The client's address: the peer's, or the one that a trusted proxy reports. An IPv6 client owns a whole /64.
fn client(connected: IpAddr, behind_trusted_proxy: bool, headers: &HeaderMap) -> IpAddr {
    let parts = || {
        let last = headers.get_all("x-forwarded-for").iter().next_back()?;
        forwarded::address(last.to_str().ok()?.rsplit(',').next()?.trim())
    };
    let address: IpAddr = if behind_trusted_proxy { parts().unwrap_or(connected) } else { connected };
    peer::client(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { requests: 3, window: Duration::from_secs(3) };

    #[test]
    fn a_bucket_gives_its_requests_at_once_and_then_one_an_interval() {
        let (buckets, begun) = (Buckets::new("subject", RATE), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        let allowed = |millis| buckets.take(&1, at(millis)).allowed;
        assert!(allowed(0) && allowed(0) && allowed(0), "three at once");
        let fourth = buckets.take(&1, begun);
        assert!(!fourth.allowed, "and one past it");
        assert_eq!((fourth.seconds(), fourth.remaining), (1, 0));
        assert!(buckets.take(&2, begun).allowed, "another has its own");
        assert!(!allowed(999));
        assert!(allowed(1_000) && !allowed(1_000));
        assert!(
            allowed(60_000) && allowed(60_000) && allowed(60_000) && !allowed(60_000),
            "never more than a whole bucket"
        );
    }

    #[test]
    fn full_buckets_are_forgotten_first_and_then_half_of_the_rest() {
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        // This many are full again, the others not for a long time.
        let buckets = |full: usize| -> HashMap<usize, Instant> {
            let of = |key: usize| later(u64::try_from(key.saturating_sub(full)).expect("a small number"));
            (0..MAX_BUCKETS).map(|key| (key, of(key))).collect()
        };
        let mut quiet = buckets(LEAST_ROOM);
        make_room(&mut quiet, now);
        let others = MAX_BUCKETS - LEAST_ROOM - 1;
        assert_eq!((quiet.len(), quiet.contains_key(&LEAST_ROOM)), (others, false), "the full ones alone");
        let mut busy = buckets(LEAST_ROOM - 2);
        make_room(&mut busy, now);
        assert!(busy.len() <= MAX_BUCKETS / 2 && busy.contains_key(&(MAX_BUCKETS - 1)), "too few were full");
    }

    #[test]
    fn a_client_is_its_address_or_what_a_trusted_proxy_saw() {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("x-forwarded-for"),
            HeaderValue::from_static("203.0.113.1, 203.0.113.9"),
        )]);
        let peer: IpAddr = "198.51.100.7".parse().expect("an address");
        assert_eq!(client(peer, false, &headers), peer);
        assert_eq!(client(peer, true, &headers).to_string(), "203.0.113.9");
        let with_port = HeaderMap::from_iter([(
            HeaderName::from_static("x-forwarded-for"),
            HeaderValue::from_static("203.0.113.9:51234"),
        )]);
        assert_eq!(client(peer, true, &with_port).to_string(), "203.0.113.9");
        assert_eq!(client(peer, true, &HeaderMap::new()), peer);
        let wide: IpAddr = "2001:db8:1:2:3:4:5:6".parse().expect("an address");
        assert_eq!(client(wide, false, &headers).to_string(), "2001:db8:1:2::");
        let mapped: IpAddr = "::ffff:198.51.100.7".parse().expect("an address");
        assert_eq!(client(mapped, false, &headers), peer);
    }
}
