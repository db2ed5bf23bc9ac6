//! Time as a parameter: code that needs the time receives a [`Clock`], so that tests can set it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use time::OffsetDateTime;

/// A source of the current time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    /// Unix seconds, moved by [`Clock::advance`].
    Set(Arc<AtomicI64>),
}

impl Clock {
    /// The system clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still at `unix_seconds` until it is advanced; for tests.
    #[must_use]
    pub fn standing_at(unix_seconds: i64) -> Self {
        Self(Source::Set(Arc::new(AtomicI64::new(unix_seconds))))
    }

    /// Advances a standing clock; has no effect on the system clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Set(seconds) = &self.0 {
            seconds.fetch_add(i64::try_from(by.as_secs()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// The current time in UTC.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        match &self.0 {
            Source::System => OffsetDateTime::now_utc(),
            Source::Set(seconds) => OffsetDateTime::from_unix_timestamp(seconds.load(Ordering::SeqCst))
                .unwrap_or(OffsetDateTime::UNIX_EPOCH),
        }
    }

    /// The current time in whole Unix seconds, as in tokens.
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        self.now().unix_timestamp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_clock_moves_only_when_told() {
        let clock = Clock::standing_at(1_000);
        assert_eq!(clock.unix_seconds(), 1_000);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.unix_seconds(), 1_005);
    }
}
