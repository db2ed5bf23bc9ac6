//! What one client connection is doing, so that the edge's own timers can end it: silence before the first byte, a head
//! that does not come to its end, a keep-alive nobody uses, a flood of control frames, an exchange in which nothing moves.
//! `h2` has a timer for none of these.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::frames::{Frames, HalfHead};
use crate::config::Timers;

/// Control frames of an HTTP/2 connection without a request; an honest client sends a few, and a ping now and then.
const MOST_CONTROLS: u32 = 1_000;

/// What the bytes on a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Heads and bodies in turn.
    Http1,
    /// Frames.
    Http2,
}

/// What the connection is doing; shared by its socket, its requests and its timer.
#[derive(Debug)]
pub(crate) struct Activity {
    doing: Mutex<Doing>,
    sooner: Notify,
}

#[derive(Debug)]
struct Doing {
    state: State,
    http2: Option<Http2>,
}

/// What is seen in HTTP/2 beside the requests, which may be under way at the same time.
#[derive(Debug)]
struct Http2 {
    frames: Frames,
    half_head: Option<Instant>,
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
    /// It is used for control frames alone: it is closed politely, too.
    Flood,
    /// An exchange in which nothing moved in either direction: the connection is dropped.
    Stalled,
}

impl Activity {
    pub(crate) fn new(protocol: Protocol) -> Arc<Self> {
        let state = State::Silent { since: Instant::now() };
        let http2 = match protocol {
            Protocol::Http1 => None,
            Protocol::Http2 => Some(Http2 { frames: Frames::new(), half_head: None }),
        };
        Arc::new(Self { doing: Mutex::new(Doing { state, http2 }), sooner: Notify::new() })
    }

    /// A request has begun; the connection is busy until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        let state = &mut self.lock().state;
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
            let (deadline, overdue) = self.lock().deadline(timers);
            if deadline <= Instant::now() {
                return overdue;
            }
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    fn bytes_read(&self, bytes: &[u8]) {
        if self.lock().read(bytes, Instant::now()) {
            self.sooner.notify_one();
        }
    }

    fn bytes_written(&self) {
        if let State::Busy { moved, .. } = &mut self.lock().state {
            *moved = Instant::now();
        }
    }

    fn end(&self) {
        let state = &mut self.lock().state;
        if let State::Busy { requests, moved } = *state {
            *state = match requests {
                0 | 1 => State::Idle { since: Instant::now() },
                more => State::Busy { requests: more - 1, moved },
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doing {
    fn deadline(&self, timers: &Timers) -> (Instant, Overdue) {
        let by_state = match self.state {
            State::Silent { since } | State::ReadingHead { since } => (since + timers.head, Overdue::Head),
            State::Idle { since } if self.is_flooded() => (since, Overdue::Flood),
            State::Idle { since } => (since + timers.keep_alive, Overdue::KeepAlive),
            State::Busy { moved, .. } => (moved + timers.stream_idle, Overdue::Stalled),
        };
        match self.http2.as_ref().and_then(|http2| http2.half_head) {
            Some(since) if since + timers.head < by_state.0 => (since + timers.head, Overdue::Head),
            _ => by_state,
        }
    }

    /// Notes what the bytes mean. `true` when the deadline may have come nearer.
    fn read(&mut self, bytes: &[u8], now: Instant) -> bool {
        let Some(http2) = &mut self.http2 else { return self.state.read_http1(now) };
        let before = http2.half_head.is_some();
        http2.half_head = match http2.frames.read(bytes) {
            HalfHead::None => None,
            HalfHead::Began => Some(now),
            HalfHead::Still => http2.half_head.or(Some(now)),
        };
        let nearer = http2.half_head.is_some() && !before;
        match &mut self.state {
            State::Busy { moved, .. } => *moved = now,
            State::Silent { .. } => self.state = State::Idle { since: now },
            State::ReadingHead { .. } | State::Idle { .. } => {}
        }
        nearer || self.is_flooded()
    }

    fn is_flooded(&self) -> bool {
        let idle = matches!(self.state, State::Idle { .. });
        idle && self.http2.as_ref().is_some_and(|http2| http2.frames.controls() > MOST_CONTROLS)
    }
}

impl State {
    /// A byte while nothing is under way begins a request head.
    fn read_http1(&mut self, now: Instant) -> bool {
        match self {
            Self::Busy { moved, .. } => *moved = now,
            Self::Silent { .. } | Self::Idle { .. } => {
                *self = Self::ReadingHead { since: now };
                return true;
            }
            Self::ReadingHead { .. } => {}
        }
        false
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
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.activity.bytes_read(bytes);
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
