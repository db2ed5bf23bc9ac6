//! [`Backlog`]: the bytes an HTTP/2 connection has accepted for sending but not sent, over all its streams. An answer
//! whose last piece `h2` has taken no longer has a task, so the connection itself checks that its client reads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::{Duration, Instant};

use crate::config::LeastRate;
use crate::http::credit::Credit;

/// Bytes over all streams beyond which no more is accepted: enough to keep a reading client busy.
const MAX_BYTES: usize = 256 << 10;
/// The cost of a frame besides its bytes: `h2` keeps an entry for each and writes its head.
const FRAME_BYTES: usize = 256;
/// The minimum time between two notices to the connection's timer that the client has stopped reading.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Bytes waiting to be sent, and how long they may wait.
#[derive(Debug)]
pub(crate) struct Backlog {
    bytes: AtomicUsize,
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    credit: Credit,
    told: Option<Instant>,
    /// Streams that wait for room.
    waiting: Vec<Waker>,
}

impl Backlog {
    pub(crate) fn new(rate: LeastRate) -> Self {
        let reading = Reading { credit: Credit::new(rate), told: None, waiting: Vec::new() };
        Self { bytes: AtomicUsize::new(0), reading: Mutex::new(reading) }
    }

    /// Records that `h2` took a frame of `bytes`.
    pub(crate) fn give(&self, bytes: usize) {
        self.bytes.fetch_add(bytes.saturating_add(FRAME_BYTES), Ordering::Relaxed);
    }

    /// Whether more may be given.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < MAX_BYTES
    }

    /// Ready when more may be given.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let waiting = &mut self.lock().waiting;
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        // It may have been cleared since the first look; from here on, clearing wakes.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Records that everything given was written to the socket, or belonged to streams that were reset.
    pub(crate) fn clear(&self) {
        if self.bytes.swap(0, Ordering::Relaxed) >= MAX_BYTES {
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Records that the client takes nothing more at the moment. `true` if the connection's timer must be told.
    pub(crate) fn stall(&self, now: Instant) -> bool {
        let reading = &mut *self.lock();
        let newly = !reading.credit.is_waiting();
        reading.credit.wait(now);
        let due = newly && reading.told.is_none_or(|told| told + TELL_EVERY <= now);
        if due {
            reading.told = Some(now);
        }
        due
    }

    /// Records that the client has taken `bytes`.
    pub(crate) fn take(&self, bytes: usize, now: impl FnOnce() -> Instant) {
        self.lock().credit.moved(bytes, now);
    }

    /// When the connection's timer must look again although it was not told: until then [`Self::stall`] tells nothing
    /// more, and the client may have taken something and stopped again.
    pub(crate) fn looks_again(&self, now: Instant) -> Option<Instant> {
        self.lock().told.map(|told| told + TELL_EVERY).filter(|end| *end > now)
    }

    /// When the client's credit runs out, if anything waits for it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().credit.used_up_at()
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: LeastRate = LeastRate { bytes: 100, grace: Duration::from_secs(5) };

    #[test]
    fn there_is_room_up_to_the_limit_and_again_when_everything_is_sent() {
        let waker = futures_util::task::noop_waker();
        let context = &mut Context::from_waker(&waker);
        let backlog = Backlog::new(RATE);
        backlog.give(MAX_BYTES - FRAME_BYTES - 1);
        assert!(backlog.poll_room(context).is_ready());
        backlog.give(0);
        assert!(backlog.poll_room(context).is_pending(), "at the limit");
        assert!(backlog.poll_room(context).is_pending());
        assert_eq!(backlog.lock().waiting.len(), 1, "one stream waits once");
        backlog.clear();
        assert!(backlog.poll_room(context).is_ready());
        assert!(backlog.lock().waiting.is_empty());
    }

    #[test]
    fn a_client_that_stops_again_soon_after_the_notice_is_looked_at_once_more() {
        let (backlog, begun) = (Backlog::new(RATE), Instant::now());
        assert_eq!(backlog.looks_again(begun), None);
        backlog.give(1);
        assert!(backlog.stall(begun), "the timer is told");
        backlog.take(1, || begun);
        assert_eq!(backlog.deadline(), None, "when it looks, the client has taken something");
        let again = begun + Duration::from_millis(500);
        assert!(!backlog.stall(again), "it is not told again so soon");
        let end = begun + TELL_EVERY;
        assert_eq!(backlog.looks_again(again), Some(end));
        assert!(backlog.deadline().is_some_and(|deadline| deadline > end), "and then finds the deadline");
        assert_eq!(backlog.looks_again(end), None);
    }

    #[test]
    fn a_client_that_stops_to_read_has_its_credit_and_one_without_anything_to_read_needs_none() {
        let (backlog, begun) = (Backlog::new(RATE), Instant::now());
        assert!(backlog.stall(begun));
        assert_eq!(backlog.deadline(), None, "nothing waits for it");
        backlog.give(1);
        let end = begun + Duration::from_secs(15);
        assert_eq!(backlog.deadline(), Some(end));
        assert!(!backlog.stall(begun + Duration::from_secs(9)), "it waits already");
        assert_eq!(backlog.deadline(), Some(end));
        backlog.take(200, || begun + Duration::from_secs(9));
        assert_eq!(backlog.deadline(), None, "it reads");
        assert!(backlog.stall(begun + Duration::from_secs(9)));
        assert_eq!(backlog.deadline(), Some(end + Duration::from_secs(2)), "and has earned some of it back");
    }
}
