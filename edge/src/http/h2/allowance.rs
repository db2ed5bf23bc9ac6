//! [`Allowance`]: limits frames of an HTTP/2 client that carry no work. A flood of them costs the gateway more than the
//! client. `h2` limits resets before a stream is accepted, protocol errors, empty DATA and CONTINUATION; this limits
//! the rest, with and without open streams.

use std::time::Duration;

use tokio::time::Instant;

/// Frames ahead of any progress, and resets ahead of any complete answer. Honest clients send dozens: settings, a
/// page's priorities, the resets when the user leaves a page. nghttp2 allows as many resets.
pub(crate) const MAX_AHEAD: u32 = 1_000;
/// One is given back per this interval: 33 a second, as in nghttp2. Clients that cancel requests or send keep-alive
/// pings stay below this rate, and that many cost the gateway next to nothing.
pub(crate) const ONE_BACK_EVERY: Duration = Duration::from_millis(30);
/// Earned by each HEADERS or DATA frame of an answer: a client that reads one may open the windows of the stream and of
/// the connection, and measure bandwidth with a PING. So neither a long download nor a stream of small messages
/// exhausts the allowance.
pub(crate) const EARNED_BY_ANSWER_FRAME: u32 = 3;
/// The maximum earned and unused: the gateway writes a frame long before it reads the client's response to it. Covers
/// everything that a window of the usual 65,535 bytes holds in the smallest possible frames; a client must read as many
/// frames before it can send these.
pub(crate) const MAX_EARNED: u32 = 65_535 * EARNED_BY_ANSWER_FRAME;

/// What one client may still send.
#[derive(Debug)]
pub(crate) struct Allowance {
    demands: Bucket,
    /// Acknowledgements paid for by answers.
    earned: u32,
    resets: Bucket,
}

impl Allowance {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { demands: Bucket { full_at: now }, earned: 0, resets: Bucket { full_at: now } }
    }

    /// Counts a frame without work; `false` if it exceeds the limit.
    pub(crate) fn demand(&mut self, now: Instant) -> bool {
        self.demands.take(now)
    }

    /// Counts a frame that clients send after reading a frame of an answer.
    pub(crate) fn acknowledgement(&mut self, now: Instant) -> bool {
        match self.earned.checked_sub(1) {
            Some(left) => {
                self.earned = left;
                true
            }
            None => self.demand(now),
        }
    }

    /// Counts a stream reset by the client; `false` if it exceeds the limit.
    pub(crate) fn reset(&mut self, now: Instant) -> bool {
        self.resets.take(now)
    }

    /// Records a HEADERS or DATA frame sent to the client, and whether it ended the answer.
    pub(crate) fn answer_frame(&mut self, is_end: bool) {
        self.earned = self.earned.saturating_add(EARNED_BY_ANSWER_FRAME).min(MAX_EARNED);
        if is_end {
            self.resets.give_back();
        }
    }
}

/// A token bucket, stored as the time at which it is full again.
#[derive(Debug)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        self.full_at = self.full_at.max(now) + ONE_BACK_EVERY;
        self.full_at.saturating_duration_since(now) <= ONE_BACK_EVERY.saturating_mul(MAX_AHEAD)
    }

    fn give_back(&mut self) {
        // Stays unchanged if the clock cannot represent an earlier time.
        self.full_at = self.full_at.checked_sub(ONE_BACK_EVERY).unwrap_or(self.full_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(allowance: &mut Allowance, now: Instant) -> u32 {
        let most = (0..2 * (MAX_EARNED + MAX_AHEAD)).position(|_| !allowance.acknowledgement(now));
        u32::try_from(most.expect("there is a limit")).expect("a count")
    }

    #[test]
    fn at_the_limit_all_is_well_and_one_past_it_is_too_many() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        assert_eq!(taken(&mut allowance, now), MAX_AHEAD);
        assert!((0..MAX_AHEAD).all(|_| allowance.reset(now)), "resets have a limit of their own");
        assert!(!allowance.reset(now));
    }

    #[test]
    fn time_gives_back_and_no_more_than_the_limit() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(begun);
        assert_eq!(taken(&mut allowance, begun), MAX_AHEAD);
        // The excess frame is counted too.
        assert_eq!(taken(&mut allowance, begun + ONE_BACK_EVERY * 11), 10);
        assert_eq!(taken(&mut allowance, begun + Duration::from_hours(1)), MAX_AHEAD);
    }

    #[test]
    fn answers_earn_acknowledgements_whenever_these_come_and_no_more_than_the_limit() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        for _ in 0..MAX_AHEAD * 10 {
            allowance.answer_frame(false);
            assert!((0..EARNED_BY_ANSWER_FRAME).all(|_| allowance.acknowledgement(now)));
        }
        (0..MAX_AHEAD).for_each(|_| allowance.answer_frame(false));
        let mut later = now + ONE_BACK_EVERY;
        assert_eq!(taken(&mut allowance, later), MAX_AHEAD * (1 + EARNED_BY_ANSWER_FRAME));
        // The excess frame is counted too.
        later += ONE_BACK_EVERY * (MAX_AHEAD + 1);
        assert_eq!(taken(&mut allowance, later), MAX_AHEAD, "what was used is used");
        (0..MAX_EARNED).for_each(|_| allowance.answer_frame(false));
        later += ONE_BACK_EVERY * (MAX_AHEAD + 1);
        assert!((0..MAX_AHEAD).all(|_| allowance.demand(later)), "they pay for nothing else");
        assert!(!allowance.demand(later));
        later += ONE_BACK_EVERY * (MAX_AHEAD + 1);
        assert_eq!(taken(&mut allowance, later), MAX_AHEAD + MAX_EARNED, "at most");
    }

    #[test]
    fn a_whole_answer_pays_for_a_reset_and_a_part_of_one_does_not() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        for _ in 0..MAX_AHEAD * 10 {
            allowance.answer_frame(true);
            assert!(allowance.reset(now));
        }
        // One of them still counts.
        for _ in 1..MAX_AHEAD {
            allowance.answer_frame(false);
            assert!(allowance.reset(now));
        }
        allowance.answer_frame(false);
        assert!(!allowance.reset(now));
    }
}
