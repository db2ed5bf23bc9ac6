//! Slows password guessing without locking the owner out. Failures count by account and by source: a device that has
//! signed in to the account before, or an address. After a few failures the source must wait before its next attempt,
//! twice as long each time; other sources do not wait. While an account has failures from many sources, an address has
//! one attempt before it waits instead of [`FREE`], so that a guesser gains little from each of many addresses. Kept in
//! memory and bounded. A delayed attempt gets the same response as a wrong password, so that names cannot be probed.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::forwarded;
use http::HeaderMap;
use uuid::Uuid;

use crate::users::queue::Line;

/// Attempts of one source before it waits.
const FREE: u32 = 5;
/// Failures of one account, counting only those from addresses, at which each address has one attempt before it waits.
const MANY: u32 = 30;
/// Wait after the last free attempt; it doubles with each further failure.
const FIRST_WAIT_SECONDS: i64 = 2;
const LONGEST_WAIT_SECONDS: i64 = 15 * 60;
/// Failures are forgotten when the last one is this old.
const MEMORY_SECONDS: i64 = 12 * 60 * 60;
/// Most entries of each map. Only existing accounts are counted, so a stranger cannot fill the maps with invented
/// names.
const MAX_ENTRIES: usize = 20_000;
/// Bits of an IPv6 address that count: one site commonly has a /48.
const IPV6_SITE_BITS: u32 = 48;

/// The source of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A device that has signed in to the account before.
    Device(Uuid),
    /// An address, for IPv6 its site; `None` for a caller on the provider's own port.
    Address(Option<IpAddr>),
    /// Any unknown device at the second factor. Its user knows the password, so addresses are not distinguished.
    SecondFactor,
    /// A device at the second factor that has shown one before. Not [`Self::Device`]: a right password on the device must
    /// not forgive wrong codes.
    SecondFactorOn(Uuid),
}

impl Source {
    /// The client's address, for IPv6 its site.
    pub(crate) fn address(headers: &HeaderMap) -> Self {
        Self::Address(client_address(headers).map(site))
    }
}

/// The client's address in the gateway's `X-Forwarded-For`. The gateway replaces a client's header and appends to a
/// trusted proxy's, so that the proxy's own address is last and its client's is last but one.
pub(crate) fn client_address(headers: &HeaderMap) -> Option<IpAddr> {
    let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
    let mut nearest_last: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    let proxy_or_client = nearest_last.pop();
    let named = nearest_last.pop().or(proxy_or_client);
    named.and_then(forwarded::address)
}

/// The part of an address that its holder cannot choose: of an IPv6 address the prefix of its site.
pub(crate) fn site_text(address: IpAddr) -> String {
    match site(address) {
        prefix @ IpAddr::V6(_) => format!("{prefix}/{IPV6_SITE_BITS}"),
        address @ IpAddr::V4(_) => address.to_string(),
    }
}

fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - IPV6_SITE_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// The failures of all accounts. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Guard(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    sources: HashMap<(Uuid, Source), Failures>,
    /// Failures from addresses, by account.
    accounts: HashMap<Uuid, Failures>,
    /// Failures by address, whatever the name.
    addresses: HashMap<Option<IpAddr>, Failures>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: i64,
    waits_until: i64,
}

impl Guard {
    /// Whether a password may be tried now. The attempt counts as a failure until [`Self::succeeded`] is called, so
    /// that concurrent and cancelled attempts are counted too.
    pub(crate) fn admits(&self, account: Uuid, source: Source, now: i64) -> bool {
        let mut counts = self.lock();
        let mut failures = remembered(&counts.sources, &(account, source), now);
        if now < failures.waits_until {
            return false;
        }
        let is_address = matches!(source, Source::Address(_));
        let many = is_address && remembered(&counts.accounts, &account, now).count >= MANY;
        let free = if many { 1 } else { FREE };
        failures.fail(now);
        if failures.count >= free {
            failures.waits_until = now.saturating_add(wait(failures.count - free));
        }
        keep(&mut counts.sources, (account, source), failures, now);
        if is_address {
            let mut failures = remembered(&counts.accounts, &account, now);
            failures.fail(now);
            keep(&mut counts.accounts, account, failures, now);
        }
        true
    }

    /// Reports that the attempt succeeded and forgets the source's failures. Those of other sources stay, or the
    /// owner's logins would give a guesser new attempts.
    pub(crate) fn succeeded(&self, account: Uuid, source: Source) {
        let mut counts = self.lock();
        counts.sources.remove(&(account, source));
        if let Source::Address(address) = source {
            counts.addresses.remove(&address);
        }
        counts.forgive(account, source);
    }

    /// Remembers a failed login from this source, whatever the name.
    pub(crate) fn failed(&self, source: Source, now: i64) {
        let Source::Address(address) = source else { return };
        let mut counts = self.lock();
        let mut failures = remembered(&counts.addresses, &address, now);
        failures.fail(now);
        keep(&mut counts.addresses, address, failures, now);
    }

    /// The queue line in which an attempt waits for its password to be hashed. A success clears an address's failures.
    pub(crate) fn line(&self, account: Option<Uuid>, source: Source, now: i64) -> Line {
        let address = match (source, account) {
            (Source::Device(_), Some(account)) => return Line::Device(account),
            (Source::Address(address), _) => address,
            (Source::Device(_) | Source::SecondFactor | Source::SecondFactorOn(_), _) => None,
        };
        let failures = remembered(&self.lock().addresses, &address, now);
        Line::Address { address, has_failed: failures.count > 0 }
    }

    /// Reports that the attempt was right but the login is not complete. Only this attempt stops counting as a failure;
    /// earlier failures stay, or someone who knows the password could use it to keep guessing codes.
    pub(crate) fn passed(&self, account: Uuid, source: Source) {
        let mut counts = self.lock();
        if let Some(failures) = counts.sources.get_mut(&(account, source)) {
            failures.count = failures.count.saturating_sub(1);
            failures.waits_until = 0;
        }
        counts.forgive(account, source);
    }

    /// A panic while the lock is held leaves both maps valid, so a poisoned lock is used as it is.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Takes back one counted attempt of the account.
    fn forgive(&mut self, account: Uuid, source: Source) {
        if matches!(source, Source::Address(_))
            && let Some(failures) = self.accounts.get_mut(&account)
        {
            failures.count = failures.count.saturating_sub(1);
        }
    }
}

impl Failures {
    const fn fail(&mut self, now: i64) {
        self.count = self.count.saturating_add(1);
        self.last = now;
    }

    const fn is_forgotten(&self, now: i64) -> bool {
        now.saturating_sub(self.last) >= MEMORY_SECONDS
    }
}

fn remembered<K: Hash + Eq>(map: &HashMap<K, Failures>, key: &K, now: i64) -> Failures {
    map.get(key).copied().filter(|failures| !failures.is_forgotten(now)).unwrap_or_default()
}

/// Seconds to wait after `more` failures beyond the last free attempt.
fn wait(more: u32) -> i64 {
    let doubled = 1_i64.checked_shl(more.min(32)).unwrap_or(i64::MAX);
    FIRST_WAIT_SECONDS.saturating_mul(doubled).min(LONGEST_WAIT_SECONDS)
}

/// Inserts an entry. Makes room in a full map by removing expired entries, or else the one with the fewest failures, so
/// that a source with a long wait keeps it.
fn keep<K: Hash + Eq + Copy>(map: &mut HashMap<K, Failures>, key: K, failures: Failures, now: i64) {
    if map.len() >= MAX_ENTRIES && !map.contains_key(&key) {
        map.retain(|_, failures| !failures.is_forgotten(now));
        let least = map.iter().min_by_key(|(_, failures)| (failures.count, failures.last));
        if let Some(key) = least.map(|(key, _)| *key).filter(|_| map.len() >= MAX_ENTRIES) {
            map.remove(&key);
        }
    }
    map.insert(key, failures);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Uuid = Uuid::from_u128(1);

    fn from(number: u32) -> Source {
        Source::Address(Some(IpAddr::from(number.to_be_bytes())))
    }

    fn named(lines: &[&'static str]) -> Source {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", http::HeaderValue::from_static(line));
        }
        Source::address(&headers)
    }

    #[test]
    fn a_source_waits_twice_as_long_after_each_failure_and_no_other_does() {
        let (guard, hostile, mut now) = (Guard::default(), from(1), 0);
        for _ in 1..FREE {
            assert!(guard.admits(ALICE, hostile, now));
        }
        for waits in [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            assert!(guard.admits(ALICE, hostile, now), "at {now}");
            assert!(!guard.admits(ALICE, hostile, now) && !guard.admits(ALICE, hostile, now + waits - 1));
            assert!(guard.admits(Uuid::from_u128(2), from(2), now), "another account");
            guard.succeeded(Uuid::from_u128(2), from(2));
            now += waits;
        }
        assert!(guard.admits(ALICE, from(2), now - 1), "another address");
        assert!(guard.admits(ALICE, hostile, now + MEMORY_SECONDS), "all is forgotten");
        assert!(guard.admits(ALICE, hostile, now + MEMORY_SECONDS));
    }

    #[test]
    fn many_addresses_have_one_attempt_each_and_a_known_device_all_of_its_own() {
        let (guard, device) = (Guard::default(), Source::Device(Uuid::from_u128(7)));
        for number in 0..MANY {
            assert!(guard.admits(ALICE, from(number), 0));
        }
        assert!(guard.admits(ALICE, from(1_000), 0), "a new address is heard at once");
        assert!(!guard.admits(ALICE, from(1_000), 1), "and waits after one failure");
        assert!(guard.admits(ALICE, from(1_000), 2));
        for _ in 0..FREE {
            assert!(guard.admits(ALICE, device, 0), "a known device does not wait for strangers");
        }
        assert!(!guard.admits(ALICE, device, 1), "only for its own failures");
        guard.succeeded(ALICE, device);
        assert!(guard.admits(ALICE, device, 1));
        assert!(!guard.admits(ALICE, from(1_000), 3), "its success frees no stranger");
    }

    #[test]
    fn right_passwords_are_no_failures() {
        let guard = Guard::default();
        for _ in 0..2 * MANY {
            assert!(guard.admits(ALICE, from(1), 0));
            guard.succeeded(ALICE, from(1));
        }
        assert_eq!(guard.lock().accounts.get(&ALICE).map(|failures| failures.count), Some(0));
        assert!(guard.lock().sources.is_empty());
    }

    #[test]
    fn a_right_password_frees_no_more_guesses_of_codes() {
        let (guard, source) = (Guard::default(), Source::SecondFactor);
        for _ in 0..FREE {
            assert!(guard.admits(ALICE, from(1), 0));
            guard.passed(ALICE, from(1));
            assert!(guard.admits(ALICE, source, 0));
        }
        assert!(guard.admits(ALICE, from(2), 0), "passwords are still taken");
        assert!(!guard.admits(ALICE, source, 1), "codes are not, from any address");
        guard.succeeded(ALICE, source);
        assert!(guard.admits(ALICE, source, 1));
        for _ in 1..FREE {
            assert!(guard.admits(ALICE, from(3), 0), "wrong passwords stay counted beside right ones");
        }
        assert!(guard.admits(ALICE, from(3), 0));
        assert!(!guard.admits(ALICE, from(3), 0));
    }

    #[test]
    fn an_address_that_fails_waits_behind_others_until_it_succeeds() {
        let guard = Guard::default();
        let has_failed = |last, now| match guard.line(None, from(last), now) {
            Line::Address { has_failed, .. } => has_failed,
            line @ (Line::Inside | Line::Device(_)) => panic!("{line:?}"),
        };
        assert!(!has_failed(1, 0));
        guard.failed(from(1), 0);
        assert!(has_failed(1, 0) && !has_failed(2, 0) && !has_failed(1, MEMORY_SECONDS));
        guard.succeeded(ALICE, from(1));
        assert!(!has_failed(1, 0));
        let device = Source::Device(Uuid::from_u128(7));
        assert_eq!(guard.line(Some(ALICE), device, 0), Line::Device(ALICE));
    }

    #[test]
    fn memory_is_bounded_and_a_source_that_waits_goes_on_waiting() {
        let guard = Guard::default();
        for _ in 0..FREE {
            assert!(guard.admits(ALICE, from(0), 0));
        }
        for number in 0..MAX_ENTRIES + 50 {
            let account = Uuid::from_u128(100 + u128::try_from(number).expect("small"));
            assert!(guard.admits(account, from(1), 1));
        }
        assert_eq!(guard.lock().sources.len(), MAX_ENTRIES);
        assert_eq!(guard.lock().accounts.len(), MAX_ENTRIES);
        assert!(!guard.admits(ALICE, from(0), 1));
    }

    #[test]
    fn the_address_is_the_one_that_the_edge_or_its_trusted_proxy_saw() {
        let v4 = |text: &str| Source::Address(Some(text.parse().expect("an address")));
        assert_eq!(named(&["198.51.100.7"]), v4("198.51.100.7"));
        assert_eq!(named(&["::ffff:198.51.100.7"]), v4("198.51.100.7"));
        assert_eq!(named(&["203.0.113.9, 192.0.2.1"]), v4("203.0.113.9"));
        assert_eq!(named(&["6.6.6.6, 203.0.113.9", "192.0.2.1"]), v4("203.0.113.9"), "not an invented one");
        assert_eq!(named(&["2001:db8:1:2:3::4"]), v4("2001:db8:1::"), "one site");
        assert_eq!(named(&["203.0.113.9:51234"]), v4("203.0.113.9"), "with its port");
        assert_eq!(named(&[]), Source::Address(None));
        assert_eq!(named(&["unknown"]), Source::Address(None));
    }
}
