//! What one client connection is doing, so that the edge's own timers can end it: silence before the first byte, a head
//! that does not come to its end, a keep-alive nobody uses, an exchange in which nothing moves. hyper has no timer for
//! the first of these and only one for the next two.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::config::Timers;

/// Which protocol's reading of "a byte came in while nothing is under way" holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// It begins a request head.
    Http1,
    /// It is any frame, so it only shows that the client speaks.
    Http2,
}

/// What the connection is doing; shared by its socket, its requests and its timer.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    head_began: Notify,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Silent { since: Instant },
    ReadingHead { since: Instant },
    Idle { since: Instant },
    Busy { requests: usize, moved: Instant },
}

/// Which timer ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No first byte, or no end of the head: the connection is dropped.
    Head,
    /// Nobody uses the connection: it is closed politely.
    KeepAlive,
    /// An exchange in which nothing moved in either direction: the connection is dropped.
    Stalled,
}

impl Activity {
    pub(crate) fn new(protocol: Protocol) -> Arc<Self> {
        let state = Mutex::new(State::Silent { since: Instant::now() });
        Arc::new(Self { state, head_began: Notify::new(), protocol })
    }

    /// A request has begun; the connection is busy until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        let mut state = self.lock();
        let moved = Instant::now();
        *state = match *state {
            State::Busy { requests, .. } => State::Busy { requests: requests + 1, moved },
            State::Silent { .. } | State::ReadingHead { .. } | State::Idle { .. } => {
                State::Busy { requests: 1, moved }
            }
        };
        Busy(Arc::clone(self))
    }

    /// Resolves when a timer has run out.
    pub(crate) async fn overdue(&self, timers: &Timers) -> Overdue {
        loop {
            let (deadline, overdue) = self.deadline(timers);
            if deadline <= Instant::now() {
                return overdue;
            }
            tokio::select! {
                () = sleep_until(deadline) => {}
                // The only change that brings the deadline nearer.
                () = self.head_began.notified() => {}
            }
        }
    }

    fn deadline(&self, timers: &Timers) -> (Instant, Overdue) {
        match *self.lock() {
            State::Silent { since } | State::ReadingHead { since } => (since + timers.head, Overdue::Head),
            State::Idle { since } => (since + timers.keep_alive, Overdue::KeepAlive),
            State::Busy { moved, .. } => (moved + timers.stream_idle, Overdue::Stalled),
        }
    }

    fn bytes_read(&self) {
        let mut state = self.lock();
        let now = Instant::now();
        match (&mut *state, self.protocol) {
            (State::Busy { moved, .. }, _) => *moved = now,
            (State::Silent { .. } | State::Idle { .. }, Protocol::Http1) => {
                *state = State::ReadingHead { since: now };
                self.head_began.notify_one();
            }
            (State::Silent { .. }, Protocol::Http2) => *state = State::Idle { since: now },
            (State::ReadingHead { .. } | State::Idle { .. }, _) => {}
        }
    }

    fn bytes_written(&self) {
        if let State::Busy { moved, .. } = &mut *self.lock() {
            *moved = Instant::now();
        }
    }

    fn end(&self) {
        let mut state = self.lock();
        if let State::Busy { requests, moved } = *state {
            *state = match requests {
                0 | 1 => State::Idle { since: Instant::now() },
                more => State::Busy { requests: more - 1, moved },
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way on a connection.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A socket that tells its connection's [`Activity`] when bytes move.
pub(crate) struct Watched<S> {
    socket: S,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    pub(crate) const fn new(socket: S, activity: Arc<Activity>) -> Self {
        Self { socket, activity }
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(length)) if *length > 0) {
            self.activity.bytes_written();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.bytes_read();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
