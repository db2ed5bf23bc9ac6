//! Makes room at the limit of connections, and at that of handshakes: a client that has kept the edge waiting for a while is
//! closed, the oldest first, when another one waits for its place. Served connections are never closed for it.

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

/// Connections that may be closed, and whether anybody waits for a place. All workers share it; a client that goes on within
/// [`PATIENCE`] never touches it.
pub(crate) struct Evictions {
    drain: Drain,
    tally: Tally,
    wanted: AtomicUsize,
    /// Wakes the one that has waited longest.
    give_way: Notify,
}

impl Evictions {
    pub(crate) fn new(drain: Drain, tally: Tally) -> Self {
        Self { drain, tally, wanted: AtomicUsize::new(0), give_way: Notify::new() }
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
        tokio::select! {
            biased;
            said = words => Ok(said),
            () = sleep_until(deadline) => Err(ErrorKind::TimedOut.into()),
            () = drain.cancelled() => {
                Err(Error::new(ErrorKind::ConnectionAborted, "silent when the drain began"))
            }
            () = self.evicted() => {
                self.tally.closed(Closed::Evicted);
                Err(Error::new(ErrorKind::ConnectionAborted, "silent while others waited for a place"))
            }
        }
    }

    /// Resolves when somebody waits for a place and this connection's turn to go has come.
    async fn evicted(&self) {
        loop {
            self.give_way.notified().await;
            // The wake may be older than the wait.
            if self.wanted.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    /// Asks for room, until the result is dropped.
    pub(super) fn want(&self) -> Wanted<'_> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        self.give_way.notify_one();
        Wanted(self)
    }
}

/// Somebody who waits for a place.
pub(super) struct Wanted<'a>(&'a Evictions);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        // Two may have asked while nobody could go, and one wake is all that is kept.
        if self.0.wanted.fetch_sub(1, Ordering::SeqCst) > 1 {
            self.0.give_way.notify_one();
        }
    }
}
