//! Whether every worker is alive, for the readiness probe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A worker without a heartbeat for this long is stuck; a busy one is late by milliseconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// When each worker last sent a heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    began: Instant,
    last_ms: Vec<AtomicU64>,
}

impl Heartbeats {
    pub(crate) fn new(workers: usize) -> Self {
        Self { began: Instant::now(), last_ms: (0..workers).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn beat(&self, worker: usize) {
        if let Some(last) = self.last_ms.get(worker) {
            last.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Whether no worker is stuck.
    pub(crate) fn all_beat(&self) -> bool {
        self.all_beat_at(self.now_ms())
    }

    fn all_beat_at(&self, now_ms: u64) -> bool {
        let oldest = now_ms.saturating_sub(u64::try_from(LONGEST_SILENCE.as_millis()).unwrap_or(u64::MAX));
        self.last_ms.iter().all(|last| last.load(Ordering::Relaxed) >= oldest)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_has_been_silent_for_more_than_five_seconds_is_stuck() {
        let heartbeats = Heartbeats::new(2);
        assert!(heartbeats.all_beat_at(5_000));
        assert!(!heartbeats.all_beat_at(5_001));
        for last in &heartbeats.last_ms {
            assert!(!heartbeats.all_beat_at(5_001), "one is not all");
            last.store(1, Ordering::Relaxed);
        }
        assert!(heartbeats.all_beat_at(5_001));
    }
}
