//! Makes room at the limits of connections and of handshakes: while a new connection waits for a permit, the client
//! that has kept the gateway waiting longest is closed. A connection between two requests counts as waiting, too;
//! otherwise a few addresses could hold every permit with one request a minute each. A connection with a running
//! request is never closed to make room.

use std::io::{self, Error, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use crate::control::drain::Drain;
use crate::metrics::tally::{Closed, Tally};

/// How long a client may be silent before it can be closed: longer than the round trip that its first bytes need, and
/// than the timeout after which TCP retransmits a lost packet.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a connection that has been served may be idle before it can be closed. Longer than [`PATIENCE`], so that
/// clients that have sent nothing go first.
pub(crate) const IDLE_PATIENCE: Duration = Duration::from_secs(2);

/// The connections that can be closed, and how many new ones wait for a place. Shared by all workers; a client that
/// sends its bytes within [`PATIENCE`] never touches it.
pub(crate) struct Evictions {
    drain: Drain,
    tally: Tally,
    wanted: AtomicUsize,
    /// Clients that have been silent for longer than [`PATIENCE`] and can be closed.
    silent: AtomicUsize,
    /// Wakes the client that has been silent longest.
    give_way: Notify,
    /// Wakes the connection that has been idle longest, when no client is silent.
    idle: Notify,
}

impl Evictions {
    pub(crate) fn new(drain: Drain, tally: Tally) -> Self {
        let (wanted, silent) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { drain, tally, wanted, silent, give_way: Notify::new(), idle: Notify::new() }
    }

    /// Waits for a client's bytes until the deadline.
    ///
    /// # Errors
    /// `TimedOut` at the deadline. `ConnectionAborted` when the client has been silent for [`PATIENCE`] and has to make
    /// room, or the drain has begun.
    pub(crate) async fn hear<F: Future>(&self, deadline: Instant, words: F) -> io::Result<F::Output> {
        let mut words = pin!(words);
        let patience = Instant::now() + PATIENCE;
        match timeout_at(patience.min(deadline), words.as_mut()).await {
            Ok(parts) => Ok(parts),
            Err(_) if deadline <= patience => Err(ErrorKind::TimedOut.into()),
            // Rare, so this future is boxed to keep every connection's task small.
            Err(_) => Box::pin(self.hear_or_evict(deadline, words)).await,
        }
    }

    async fn hear_or_evict<F: Future>(&self, deadline: Instant, words: Pin<&mut F>) -> io::Result<F::Output> {
        let drain = self.drain.token();
        let silent = Silent::among(self);
        tokio::select! {
            biased;
            parts = words => {
                drop(silent);
                if self.silent.load(Ordering::SeqCst) == 0 {
                    // This client may have consumed the wake-up of a connection that waits for a place.
                    self.pass_on();
                }
                Ok(parts)
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

    /// Counts a connection that is closed to make room.
    pub(crate) fn close(&self) {
        self.tally.closed(Closed::Evicted);
    }

    /// Resolves when a connection without a request has to make room: a new one waits for a place, and there is no
    /// silent client to close instead.
    pub(crate) async fn evicted(&self) {
        loop {
            self.told(&self.idle).await;
            if self.silent.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.wake();
        }
    }

    /// Resolves when a new connection waits for a place and it is this connection's turn to be closed.
    async fn told(&self, told: &Notify) {
        loop {
            told.notified().await;
            // A stored wake-up may be from before this call, when a place was wanted that is no longer.
            if self.wanted.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    /// Hands the wake-up on, so that another connection makes room.
    pub(crate) fn pass_on(&self) {
        if self.wanted.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        let to_go = if self.silent.load(Ordering::SeqCst) > 0 { &self.give_way } else { &self.idle };
        to_go.notify_one();
    }

    /// Asks for a place until the result is dropped.
    pub(crate) fn want(&self) -> Wanted<'_> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        self.wake();
        Wanted(self)
    }
}

/// A new connection's wait for a place.
pub(crate) struct Wanted<'a>(&'a Evictions);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        // `Notify` stores one wake-up only: when several connections asked while none could be closed, the others' were
        // lost.
        if self.0.wanted.fetch_sub(1, Ordering::SeqCst) > 1 {
            self.0.wake();
        }
    }
}

/// A client that has been silent for longer than [`PATIENCE`].
struct Silent<'a>(&'a Evictions);

impl<'a> Silent<'a> {
    fn among(evictions: &'a Evictions) -> Self {
        evictions.silent.fetch_add(1, Ordering::SeqCst);
        // A connection that waits for a place already asked before this client could be closed.
        evictions.pass_on();
        Self(evictions)
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        self.0.silent.fetch_sub(1, Ordering::SeqCst);
    }
}
