//! Makes room at the limit of connections, and at that of handshakes: a client that has kept the edge waiting for a while is
//! closed, the oldest first, when another one waits for its place. Between two requests it keeps the edge waiting as well: a
//! few addresses could hold all places otherwise, with a request a minute. A connection with a request is never closed for
//! it.

use std::io::{self, Error, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::drain::Drain;
use crate::tally::{Closed, Tally};

/// How long nobody is closed: more than the round trip that a client's first bytes need, and than the time after which TCP
/// repeats a lost packet.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a connection that was served waits for its next request before it may be closed: longer, so that those that say
/// nothing go first.
pub(crate) const IDLE_PATIENCE: Duration = Duration::from_secs(2);

/// Connections that may be closed, and whether anybody waits for a place. All workers share it; a client that goes on within
/// [`PATIENCE`] never touches it.
pub(crate) struct Evictions {
    drain: Drain,
    tally: Tally,
    wanted: AtomicUsize,
    /// Clients that have said nothing, and may be closed.
    silent: AtomicUsize,
    /// Wakes the one of them that has waited longest.
    give_way: Notify,
    /// Wakes the connection that has been idle longest, where none is silent.
    idle: Notify,
}

impl Evictions {
    pub(crate) fn new(drain: Drain, tally: Tally) -> Self {
        let (wanted, silent) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { drain, tally, wanted, silent, give_way: Notify::new(), idle: Notify::new() }
    }

    /// Waits for what a client has to say, until the deadline.
    ///
    /// # Errors
    /// `TimedOut`; `ConnectionAborted` when the connection has to make room or the drain has begun, and the client had its
    /// time.
    pub(crate) async fn hear<F: Future>(&self, deadline: Instant, words: F) -> io::Result<F::Output> {
        let mut words = pin!(words);
        let patience = Instant::now() + PATIENCE;
        match timeout_at(patience.min(deadline), words.as_mut()).await {
            Ok(said) => Ok(said),
            Err(_) if deadline <= patience => Err(ErrorKind::TimedOut.into()),
            // Few come here, and their wait is kept out of everybody's task.
            Err(_) => Box::pin(self.hear_or_evict(deadline, words)).await,
        }
    }

    async fn hear_or_evict<F: Future>(&self, deadline: Instant, words: Pin<&mut F>) -> io::Result<F::Output> {
        let drain = self.drain.token();
        let silent = Silent::among(self);
        tokio::select! {
            biased;
            said = words => {
                drop(silent);
                if self.silent.load(Ordering::SeqCst) == 0 {
                    // The last of them may have been woken for it.
                    self.pass_on();
                }
                Ok(said)
            }
            () = sleep_until(deadline) => Err(ErrorKind::TimedOut.into()),
            () = drain.cancelled() => {
                Err(Error::new(ErrorKind::ConnectionAborted, "silent when the drain began"))
            }
            () = self.told(&self.give_way) => {
                self.close();
                Err(Error::new(ErrorKind::ConnectionAborted, "silent while others waited for a place"))
            }
        }
    }

    /// Counts a connection that is closed for another.
    pub(super) fn close(&self) {
        self.tally.closed(Closed::Evicted);
    }

    /// Resolves when a connection without a request has to make room: somebody waits for a place, and no silent client can go.
    pub(super) async fn evicted(&self) {
        loop {
            self.told(&self.idle).await;
            if self.silent.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.wake();
        }
    }

    /// Resolves when somebody waits for a place and this connection's turn to go has come.
    async fn told(&self, told: &Notify) {
        loop {
            told.notified().await;
            // The wake may be older than the wait.
            if self.wanted.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    /// Leaves it to another connection to make room.
    pub(super) fn pass_on(&self) {
        if self.wanted.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        let to_go = if self.silent.load(Ordering::SeqCst) > 0 { &self.give_way } else { &self.idle };
        to_go.notify_one();
    }

    /// Asks for room, until the result is dropped.
    pub(super) fn want(&self) -> Wanted<'_> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        self.wake();
        Wanted(self)
    }
}

/// Somebody who waits for a place.
pub(super) struct Wanted<'a>(&'a Evictions);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        // Two may have asked while nobody could go, and one wake is all that is kept.
        if self.0.wanted.fetch_sub(1, Ordering::SeqCst) > 1 {
            self.0.wake();
        }
    }
}

/// A client that has said nothing for a while.
struct Silent<'a>(&'a Evictions);

impl<'a> Silent<'a> {
    fn among(evictions: &'a Evictions) -> Self {
        evictions.silent.fetch_add(1, Ordering::SeqCst);
        // Whoever waits already has woken nobody of them.
        evictions.pass_on();
        Self(evictions)
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        self.0.silent.fetch_sub(1, Ordering::SeqCst);
    }
}
