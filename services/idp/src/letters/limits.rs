//! Limits how often one address may request e-mails. Kept in memory and bounded, like the failures of logins. Counts
//! requests whatever name they contain, so that a refusal reveals nothing about accounts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::login::guard::Source;

/// E-mails that one address may request within [`WINDOW_SECONDS`].
pub(crate) const PER_ADDRESS: u32 = 10;
const WINDOW_SECONDS: i64 = 60 * 60;
/// Most addresses remembered.
const MAX_ENTRIES: usize = 20_000;

/// The counts of all addresses. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Limits(Arc<Mutex<HashMap<Source, Count>>>);

#[derive(Clone, Copy)]
struct Count {
    since: i64,
    requests: u32,
}

impl Limits {
    /// Counts a request and returns whether this address may make it now.
    pub(crate) fn admits(&self, source: Source, now: i64) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |count: &Count| now.saturating_sub(count.since) >= WINDOW_SECONDS;
        if counts.len() >= MAX_ENTRIES && !counts.contains_key(&source) {
            counts.retain(|_, count| !is_over(count));
            // A flood from many addresses must not keep others from their e-mails. What one account is sent is limited
            // by its links.
            if counts.len() >= MAX_ENTRIES {
                tracing::warn!(
                    addresses = counts.len(),
                    "many addresses ask for e-mails; forgetting those that asked once"
                );
                counts.retain(|_, count| count.requests > 1);
            }
            if counts.len() >= MAX_ENTRIES {
                counts.clear();
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
        let most = u32::try_from(MAX_ENTRIES).expect("small");
        for _ in 0..=PER_ADDRESS {
            limits.admits(from(u32::MAX), 0);
        }
        for number in 0..most + 50 {
            assert!(limits.admits(from(number), 0), "other addresses are still admitted during a flood");
        }
        assert!(!limits.admits(from(u32::MAX), 0), "who asked too often goes on waiting");
        for number in 0..most {
            for _ in 0..2 {
                limits.admits(from(number), 0);
            }
        }
        assert!(limits.admits(from(most), 0));
        assert!(limits.0.lock().expect("no panic").len() <= MAX_ENTRIES);
    }
}
