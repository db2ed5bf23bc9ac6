//! Keeps the key set fresh: fetches, swaps the snapshot and counts generations in one place, for both the background
//! loop and tokens with an unknown key id. A failed fetch or a useless document never replaces a good set.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fetch::{FetchError, Fetcher};
use crate::keys::{KeySet, KeySetError};

/// At most one fetch in this period for unknown key ids, so that forged tokens cannot flood the provider.
const UNKNOWN_KID_PAUSE: Duration = Duration::from_secs(5);
/// Most remembered key ids that the provider did not know; the oldest is forgotten first.
const MAX_UNKNOWN_KIDS: usize = 1_024;
/// How long a key id counts as unknown to the provider.
const UNKNOWN_KID_KEPT: Duration = Duration::from_mins(1);
/// First wait after a failed fetch, doubled up to one of the two limits below.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
/// Longest wait before the first keys: a provider that starts late is noticed within a second.
const LONGEST_BACK_OFF_WITHOUT_KEYS: Duration = Duration::from_secs(1);
/// Longest wait once there are keys, which remain usable meanwhile.
const LONGEST_BACK_OFF: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum RefreshError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Keys(#[from] KeySetError),
}

/// The published key set and the state that keeps it fresh.
#[derive(Debug)]
pub(crate) struct KeyStore {
    fetcher: Fetcher,
    keys: ArcSwapOption<KeySet>,
    /// When the keys were last read; updated after the keys are published.
    read_at: watch::Sender<Option<Instant>>,
    generation: AtomicU64,
    /// Held during a fetch: a task that waits for the lock finds the result in `keys`.
    asked: Mutex<Asked>,
}

/// The record of fetches for unknown key ids.
#[derive(Debug, Default)]
struct Asked {
    last: Option<Instant>,
    /// When any fetch last failed.
    failed: Option<Instant>,
    unknown: VecDeque<(Instant, String)>,
}

impl KeyStore {
    pub(crate) fn new(fetcher: Fetcher) -> Self {
        Self {
            fetcher,
            keys: ArcSwapOption::empty(),
            read_at: watch::Sender::new(None),
            generation: AtomicU64::new(0),
            asked: Mutex::new(Asked::default()),
        }
    }

    pub(crate) fn keys(&self) -> Option<Arc<KeySet>> {
        self.keys.load_full()
    }

    /// Waits until there are keys.
    pub(crate) async fn arrived(&self) {
        let mut read_at = self.read_at.subscribe();
        // `self` owns the sender, so the wait cannot fail.
        let _arrived = read_at.wait_for(Option::is_some).await;
    }

    /// Time since the keys were last read.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.read_at.borrow().map(|read| read.elapsed())
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Asks the provider about `kid` and returns the key set; returns the current one when the provider may not be
    /// asked (again).
    pub(crate) async fn keys_for_unknown(&self, kid: &str) -> Option<Arc<KeySet>> {
        let arrived = Instant::now();
        let mut asked = self.asked.lock().await;
        let present = self.keys();
        let now = Instant::now();
        if asked.failed.is_some_and(|failed| failed >= arrived) {
            // The fetch that this task waited for has just failed; a second one would only make the request wait twice.
            return present;
        }
        if present.as_ref().is_some_and(|keys| keys.find(kid).is_some()) || !asked.may_ask(kid, now) {
            return present;
        }
        asked.last = Some(now);
        match self.refresh(&mut asked).await {
            Ok(keys) if keys.find(kid).is_none() => asked.remember_unknown(kid, now),
            Ok(_) => tracing::info!("the identity provider has a new signing key"),
            Err(error) => tracing::warn!(%error, "cannot ask the identity provider for an unknown key id"),
        }
        self.keys()
    }

    async fn refresh(&self, asked: &mut Asked) -> Result<Arc<KeySet>, RefreshError> {
        let read = self.read().await;
        if read.is_err() {
            asked.failed = Some(Instant::now());
        }
        let fresh = Arc::new(read?);
        let before = self.keys.swap(Some(Arc::clone(&fresh)));
        self.read_at.send_replace(Some(Instant::now()));
        if before.is_some_and(|before| !fresh.keeps_all_of(&before)) {
            self.generation.fetch_add(1, Ordering::AcqRel);
            tracing::info!("the identity provider withdrew a signing key");
        }
        Ok(fresh)
    }

    async fn read(&self) -> Result<KeySet, RefreshError> {
        Ok(KeySet::parse(&self.fetcher.fetch().await?)?)
    }

    /// The background loop until `stop`: short waits while there are no keys, then every `interval`.
    pub(crate) async fn keep_fresh(self: Arc<Self>, interval: Duration, stop: CancellationToken) {
        let mut back_off = FIRST_BACK_OFF;
        let mut failing = false;
        loop {
            let refreshed = tokio::select! {
                () = stop.cancelled() => return,
                refreshed = self.refresh_alone() => refreshed,
            };
            report(&mut failing, refreshed.as_ref().err());
            let wait = if refreshed.is_ok() {
                back_off = FIRST_BACK_OFF;
                interval
            } else {
                let longest = self.longest_back_off();
                let wait = back_off.min(longest);
                back_off = (wait * 2).min(longest);
                wait.min(interval)
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Takes the same lock as look-ups of unknown key ids, so that two fetches never run at once.
    async fn refresh_alone(&self) -> Result<Arc<KeySet>, RefreshError> {
        self.refresh(&mut *self.asked.lock().await).await
    }

    fn longest_back_off(&self) -> Duration {
        if self.keys.load().is_some() { LONGEST_BACK_OFF } else { LONGEST_BACK_OFF_WITHOUT_KEYS }
    }
}

impl Asked {
    fn may_ask(&mut self, kid: &str, now: Instant) -> bool {
        self.unknown.retain(|(since, _)| now.duration_since(*since) < UNKNOWN_KID_KEPT);
        let rested = self.last.is_none_or(|last| now.duration_since(last) >= UNKNOWN_KID_PAUSE);
        rested && !self.unknown.iter().any(|(_, unknown)| unknown == kid)
    }

    fn remember_unknown(&mut self, kid: &str, now: Instant) {
        if self.unknown.len() >= MAX_UNKNOWN_KIDS {
            self.unknown.pop_front();
        }
        self.unknown.push_back((now, kid.to_owned()));
    }
}

/// Logs once when an outage begins and once when it ends, not at every attempt.
fn report(failing: &mut bool, error: Option<&RefreshError>) {
    match error {
        Some(error) if !*failing => {
            tracing::warn!(%error, "cannot read the identity provider's signing keys");
        }
        Some(error) => tracing::debug!(%error, "still cannot read the identity provider's signing keys"),
        None if *failing => tracing::info!("the identity provider's signing keys can be read again"),
        None => {}
    }
    *failing = error.is_some();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_asked_once_in_five_seconds_and_never_twice_for_one_unknown_id() {
        let mut asked = Asked::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(asked.may_ask("a", start));
        asked.last = Some(start);
        asked.remember_unknown("a", start);
        assert!(!asked.may_ask("b", after(4)));
        assert!(asked.may_ask("b", after(5)));
        assert!(!asked.may_ask("a", after(59)));
        assert!(asked.may_ask("a", after(60)));
    }

    #[test]
    fn the_memory_of_unknown_ids_is_bounded() {
        let mut asked = Asked::default();
        let now = Instant::now();
        (0..=MAX_UNKNOWN_KIDS).for_each(|number| asked.remember_unknown(&number.to_string(), now));
        assert_eq!(asked.unknown.len(), MAX_UNKNOWN_KIDS);
        assert!(asked.may_ask("0", now), "the oldest is forgotten");
    }
}
