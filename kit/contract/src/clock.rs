//! Time as a parameter: whoever needs the hour is given a [`Clock`], so that a test can set it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use time::OffsetDateTime;

/// Where the present moment comes from.
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
    /// The clock of the machine.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `unix_seconds` until it is moved; for tests.
    #[must_use]
    pub fn standing_at(unix_seconds: i64) -> Self {
        Self(Source::Set(Arc::new(AtomicI64::new(unix_seconds))))
    }

    /// Moves a standing clock forward; the machine's clock cannot be moved and stays as it is.
    pub fn advance(&self, by: Duration) {
        if let Source::Set(seconds) = &self.0 {
            seconds.fetch_add(i64::try_from(by.as_secs()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// The present moment in UTC.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        match &self.0 {
            Source::System => OffsetDateTime::now_utc(),
            Source::Set(seconds) => OffsetDateTime::from_unix_timestamp(seconds.load(Ordering::SeqCst))
                .unwrap_or(OffsetDateTime::UNIX_EPOCH),
        }
    }

    /// The present moment in whole seconds since 1970, as tokens count.
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
