//! How often one address may ask for letters. Kept in memory and bounded, as the failures of the login are. It counts requests
//! whatever name they hold, so that what it refuses tells nothing about accounts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::login::guard::Source;

/// Letters that one address may ask for within [`WINDOW_SECONDS`].
pub(crate) const PER_ADDRESS: u32 = 10;
const WINDOW_SECONDS: i64 = 60 * 60;
/// Addresses that are remembered.
const MAX_ENTRIES: usize = 20_000;

/// The counts of every address. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Limits(Arc<Mutex<HashMap<Source, Count>>>);

#[derive(Clone, Copy)]
struct Count {
    since: i64,
    requests: u32,
}

impl Limits {
    /// Whether this address may ask now; it is counted.
    pub(crate) fn admits(&self, source: Source, now: i64) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |count: &Count| now.saturating_sub(count.since) >= WINDOW_SECONDS;
        if counts.len() >= MAX_ENTRIES && !counts.contains_key(&source) {
            counts.retain(|_, count| !is_over(count));
            // Full of others that asked within the hour: a flood from many addresses, which gains nothing by one more.
            if counts.len() >= MAX_ENTRIES {
                return false;
            }
        }
        let count = counts.entry(source).or_insert(Count { since: now, requests: 0 });
        if is_over(count) {
            *count = Count { since: now, requests: 0 };
        }
        count.requests = count.requests.saturating_add(1);
        count.requests <= PER_ADDRESS
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn from(number: u32) -> Source {
        Source::Address(Some(IpAddr::from(number.to_be_bytes())))
    }

    #[test]
    fn an_address_asks_so_often_in_an_hour_and_no_other_waits_for_it() {
        let limits = Limits::default();
        for _ in 0..PER_ADDRESS {
            assert!(limits.admits(from(1), 0));
        }
        assert!(!limits.admits(from(1), WINDOW_SECONDS - 1) && limits.admits(from(2), 0));
        assert!(limits.admits(from(1), WINDOW_SECONDS));
    }

    #[test]
    fn memory_is_bounded() {
        let limits = Limits::default();
        for number in 0..u32::try_from(MAX_ENTRIES).expect("small") {
            assert!(limits.admits(from(number), 0));
        }
        assert!(!limits.admits(from(u32::MAX), 0));
        assert!(limits.admits(from(u32::MAX), WINDOW_SECONDS), "the hour is over");
    }
}
