//! The retry schedule of failed jobs. Pure: randomness is a parameter.

use std::sync::Arc;
use std::time::Duration;

/// Most attempts of a job, as the tables of jobs allow (`attempt_count BETWEEN 0 AND 100`).
pub const MAX_ATTEMPTS: usize = 100;
/// A delay is jittered to 80–120 %, so that jobs that failed together are not retried together.
const LEAST_PERMILLE: u64 = 800;
const PERMILLES: u64 = 401;
/// Longest wait that a receiver may ask for (`Retry-After`): no receiver can park a job for ever.
const MAX_ASKED: Duration = Duration::from_hours(24);

/// The delay before each attempt; one entry per attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Arc<[Duration]>);

impl Ladder {
    /// A ladder whose first delay precedes the first attempt; the creator of the job applies it or not. `None` for no
    /// delays, or for more than [`MAX_ATTEMPTS`].
    #[must_use]
    pub fn new(delays: &[Duration]) -> Option<Self> {
        (1..=MAX_ATTEMPTS).contains(&delays.len()).then(|| Self(delays.into()))
    }

    /// The number of attempts.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.0.len()
    }

    /// The wait after attempt number `attempt` has failed, counted from 1; `None` after the last one. `asked` is the
    /// receiver's requested wait, a minimum up to a day.
    #[must_use]
    pub fn after(&self, attempt: usize, asked: Option<Duration>, random: u64) -> Option<Duration> {
        let delay = self.0.get(attempt)?;
        let permille = u32::try_from(LEAST_PERMILLE + random % PERMILLES).unwrap_or(1_000);
        let spread = delay.saturating_mul(permille) / 1_000;
        Some(spread.max(asked.unwrap_or_default().min(MAX_ASKED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_ladder_has_one_to_a_hundred_attempts() {
        for (attempts, fits) in [(0, false), (1, true), (MAX_ATTEMPTS, true), (MAX_ATTEMPTS + 1, false)] {
            let ladder = Ladder::new(&vec![SECOND; attempts]);
            assert_eq!(ladder.map(|ladder| ladder.attempts()), fits.then_some(attempts));
        }
    }

    #[test]
    fn each_failure_waits_for_the_next_rung_and_the_last_for_none() {
        let ladder = Ladder::new(&[Duration::ZERO, 5 * SECOND, 300 * SECOND]).expect("three");
        let middle = LEAST_PERMILLE / 4;
        let waits = [1, 2, 3, 4, usize::MAX].map(|attempt| ladder.after(attempt, None, middle));
        assert_eq!(waits, [Some(5 * SECOND), Some(300 * SECOND), None, None, None]);
    }

    #[test]
    fn a_wait_is_spread_over_a_fifth_to_each_side() {
        let ladder = Ladder::new(&[SECOND, SECOND]).expect("two");
        let waits: Vec<_> = (0..PERMILLES * 2).filter_map(|random| ladder.after(1, None, random)).collect();
        assert_eq!(waits.iter().min(), Some(&Duration::from_millis(800)));
        assert_eq!(waits.iter().max(), Some(&Duration::from_millis(1_200)));
        assert!(ladder.after(1, None, u64::MAX).is_some_and(|wait| wait <= Duration::from_millis(1_200)));
    }

    #[test]
    fn what_a_receiver_asks_for_is_granted_up_to_a_day() {
        let ladder = Ladder::new(&[SECOND, 10 * SECOND]).expect("two");
        let asking = |asked| ladder.after(1, Some(asked), 200);
        assert_eq!(asking(SECOND), Some(10 * SECOND));
        assert_eq!(asking(MAX_ASKED), Some(MAX_ASKED));
        assert_eq!(asking(MAX_ASKED + SECOND), Some(MAX_ASKED));
        assert_eq!(ladder.after(2, Some(SECOND), 0), None);
    }
}
