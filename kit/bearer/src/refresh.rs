//! Keeps the key set fresh: one place that fetches, swaps the snapshot and counts generations, used by the background
//! loop and by a token with an unknown key id. A failed fetch or a useless document never replaces a good set.

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

/// At most one fetch in this time for key ids nobody knows, so that forged tokens cannot flood the provider.
const UNKNOWN_KID_PAUSE: Duration = Duration::from_secs(5);
/// Key ids the provider did not know when asked; the oldest is forgotten first.
const MAX_UNKNOWN_KIDS: usize = 1_024;
/// How long the provider's "no" to a key id counts.
const UNKNOWN_KID_KEPT: Duration = Duration::from_mins(1);
/// First wait after a failed fetch; doubled up to one of the two longest ones.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
/// Longest wait before the first keys: a provider that comes up late is seen within a second.
const LONGEST_BACK_OFF_WITHOUT_KEYS: Duration = Duration::from_secs(1);
/// Longest wait once keys are known: they serve on meanwhile.
const LONGEST_BACK_OFF: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum RefreshError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Keys(#[from] KeySetError),
}

/// The published key set and what keeps it fresh.
#[derive(Debug)]
pub(crate) struct KeyStore {
    fetcher: Fetcher,
    keys: ArcSwapOption<KeySet>,
    /// When they were last read; told after they are there.
    read_at: watch::Sender<Option<Instant>>,
    generation: AtomicU64,
    /// Held during a fetch: whoever waits for it finds the result in `keys`.
    asked: Mutex<Asked>,
}

/// What was asked of the provider on behalf of unknown key ids.
#[derive(Debug, Default)]
struct Asked {
    last: Option<Instant>,
    /// When a fetch failed last, whoever asked for it.
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
        // The sender lives as long as this does.
        let _arrived = read_at.wait_for(Option::is_some).await;
    }

    /// Since the keys were last read.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.read_at.borrow().map(|read| read.elapsed())
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The key set after asking the provider about `kid`, or the present one when it may not be asked (again).
    pub(crate) async fn keys_for_unknown(&self, kid: &str) -> Option<Arc<KeySet>> {
        let arrived = Instant::now();
        let mut asked = self.asked.lock().await;
        let present = self.keys();
        let now = Instant::now();
        if asked.failed.is_some_and(|failed| failed >= arrived) {
            // The fetch waited for failed a moment ago; a second one would only make the request wait twice.
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

    /// The background loop: until `stop`, with short waits while there are no keys, then every `interval`.
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

    /// Shares the lock with the unknown key ids, so that two fetches never run at once.
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

/// One line when an outage begins and one when it ends, not one a try.
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
