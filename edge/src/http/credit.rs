//! [`Credit`]: how long a client may still keep the gateway waiting. Waiting uses credit up, and every byte that the
//! client sends or takes earns some back, so a client below the minimum rate runs out of it. Waiting for the upstream
//! costs nothing: a stream of rare events is not slow.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::LeastRate;

/// The time over which the rate is measured after the grace period.
const WINDOW: Duration = Duration::from_secs(10);

/// Why an answer is cut off when its client takes too little of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowReader {
    /// Below the minimum rate.
    BelowRate,
    /// Nothing for the longest pause.
    Stalled,
}

impl SlowReader {
    /// A stable word for the access log and the metrics.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::BelowRate => "client_too_slow",
            Self::Stalled => "client_stalled",
        }
    }
}

/// The remaining credit of one client in one direction of one exchange.
#[derive(Debug)]
pub(crate) struct Credit {
    rate: LeastRate,
    left: Duration,
    waiting_since: Option<Instant>,
}

impl Credit {
    /// A full credit.
    pub(crate) fn new(rate: LeastRate) -> Self {
        Self { rate, left: rate.grace.saturating_add(WINDOW), waiting_since: None }
    }

    /// Records that the client is awaited, unless it is already. Returns when its credit runs out, if it can.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.waiting_since.get_or_insert(now);
        (self.rate.bytes > 0).then(|| since + self.left)
    }

    /// The minimum rate, in bytes per second.
    pub(crate) const fn least_rate(&self) -> u32 {
        self.rate.bytes
    }

    /// When the credit runs out, if the client is awaited.
    pub(crate) fn used_up_at(&self) -> Option<Instant> {
        self.waiting_since.filter(|_| self.rate.bytes > 0).map(|since| since + self.left)
    }

    /// Whether the client was awaited until its credit ran out.
    pub(crate) fn is_used_up(&self, now: Instant) -> bool {
        self.used_up_at().is_some_and(|end| end <= now)
    }

    /// Classifies a client that was awaited with this credit.
    pub(crate) fn slow_reader(&self, now: Instant) -> SlowReader {
        if self.is_used_up(now) { SlowReader::BelowRate } else { SlowReader::Stalled }
    }

    /// Whether the client is awaited.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Records that the client has moved `bytes` and is no longer awaited.
    pub(crate) fn moved(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.left = self.left.saturating_sub(now().duration_since(since));
        }
        let most = self.rate.grace.saturating_add(WINDOW);
        if self.left < most && self.rate.bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let earned = Duration::from_secs(1).saturating_mul(bytes) / self.rate.bytes;
            self.left = self.left.saturating_add(earned).min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: LeastRate = LeastRate { bytes: 100, grace: Duration::from_secs(5) };

    /// How long a client lasts that moves `bytes` after each `pause`; at most one minute.
    fn lasts(bytes: usize, pause: Duration) -> Duration {
        let begun = Instant::now();
        let (mut credit, mut now) = (Credit::new(RATE), begun);
        while now < begun + Duration::from_mins(1) {
            let end = credit.wait(now).expect("a rate");
            if end <= now + pause {
                return end - begun;
            }
            now += pause;
            credit.moved(bytes, || now);
        }
        now - begun
    }

    #[test]
    fn a_client_at_the_rate_lasts_and_a_slower_one_does_not() {
        let second = Duration::from_secs(1);
        assert_eq!(lasts(100, second), Duration::from_mins(1), "at the rate");
        assert_eq!(lasts(1_000, second * 10), Duration::from_mins(1), "in any portions");
        assert!(lasts(99, second) == Duration::from_mins(1), "a little behind, for a while");
        assert_eq!(
            lasts(50, second),
            Duration::from_secs(29),
            "at half of it: twice the credit, less a second"
        );
        assert_eq!(lasts(0, second), Duration::from_secs(15), "grace and window");
        assert_eq!(
            lasts(1_000_000, second * 16),
            Duration::from_secs(15),
            "credit never exceeds its maximum"
        );
    }

    #[test]
    fn time_in_which_nobody_waits_for_the_client_costs_nothing() {
        let (begun, hour) = (Instant::now(), Duration::from_hours(1));
        let mut credit = Credit::new(RATE);
        assert_eq!(credit.wait(begun), Some(begun + Duration::from_secs(15)));
        credit.moved(0, || begun + Duration::from_secs(3));
        assert!(!credit.is_waiting());
        assert_eq!(credit.wait(begun + hour), Some(begun + hour + Duration::from_secs(12)));
    }

    #[test]
    fn without_a_rate_nobody_runs_out() {
        let mut credit = Credit::new(LeastRate { bytes: 0, ..RATE });
        assert_eq!(credit.wait(Instant::now()), None);
        credit.moved(1, Instant::now);
        assert_eq!(credit.wait(Instant::now()), None);
    }
}
