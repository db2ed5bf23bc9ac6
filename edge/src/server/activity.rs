//! Tracks what one HTTP/2 connection is doing, so that the gateway's own timers can end it: no first byte, an
//! unfinished request head, an idle connection, an exchange in which no bytes move. `h2` has no timer for any of these.
//! Also stops reading from a client whose frames end the connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::config::{LeastRate, Timers};
use crate::http::h2::frames::{Frames, HalfHead};
use crate::http::quantum::give_way;
use crate::server::backlog::Backlog;
use crate::server::evictions::{Evictions, IDLE_PATIENCE};

/// Bytes of heads whose requests' bodies have not arrived, per connection. Each stream may send a head of the maximum
/// size and then nothing more; a browser's head takes 2 KiB, so every stream of a connection may wait for a body.
const MAX_WAITING_HEAD_BYTES: usize = 1 << 20;

/// Bodies per connection that are read and dropped at the same time because their requests were answered early. A
/// page's uploads on one connection may all be answered early.
const MAX_READ_AWAY: u8 = 32;

/// The protocol spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Heads and bodies alternate.
    Http1,
    /// Frames.
    Http2,
}

/// The state of the connection; shared by its socket, its requests and its timer.
#[derive(Debug)]
pub(crate) struct Activity {
    doing: Mutex<Doing>,
    sooner: Notify,
    backlog: Backlog,
    /// Why the connection must end at once; reading stops when it is set.
    broken: OnceLock<Reason>,
}

#[derive(Debug)]
struct Doing {
    state: State,
    frames: Frames,
    /// Bytes of the heads of running requests whose bodies have not ended.
    head_bytes: usize,
    /// Bodies being read and dropped.
    read_away: u8,
    /// When the unfinished request head started; requests may be running at the same time.
    half_head: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Silent { since: Instant },
    Idle { since: Instant },
    Busy { requests: usize, moved: Instant },
}

/// Why the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No first byte, or no end of the head: the connection is dropped.
    Head,
    /// The connection is idle: it is closed gracefully.
    KeepAlive,
    /// An exchange in which nothing moved in either direction: the connection is dropped.
    Stalled,
    /// The client reads too slowly: the connection is dropped.
    SlowReader,
    /// The client's frames end it, or it must make room for a new one; see [`Activity::broken`].
    Broken,
}

impl Activity {
    /// `rate`: the rate at which the client must read while anything waits for it.
    pub(crate) fn new(rate: LeastRate) -> Arc<Self> {
        let now = Instant::now();
        let state = State::Silent { since: now };
        let doing = Doing { state, frames: Frames::new(now), head_bytes: 0, read_away: 0, half_head: None };
        let (backlog, broken) = (Backlog::new(rate), OnceLock::new());
        Arc::new(Self { doing: Mutex::new(doing), sooner: Notify::new(), backlog, broken })
    }

    /// Starts a request; the connection is busy until the result is dropped. `waiting` is the size of its head if its
    /// body is still to come; `None` if too many such heads wait on the connection.
    pub(crate) fn begin(self: &Arc<Self>, waiting: Option<usize>) -> Option<Busy> {
        let (head_bytes, has_body) = (waiting.unwrap_or(0), waiting.is_some());
        let doing = &mut *self.lock();
        let waiting = doing.head_bytes.saturating_add(head_bytes);
        if head_bytes > 0 && waiting > MAX_WAITING_HEAD_BYTES {
            return None;
        }
        doing.head_bytes = waiting;
        let moved = Instant::now();
        doing.state = match doing.state {
            State::Busy { requests, .. } => State::Busy { requests: requests + 1, moved },
            State::Silent { .. } | State::Idle { .. } => State::Busy { requests: 1, moved },
        };
        Some(Busy { activity: Arc::clone(self), head_bytes, has_body, reads_away: false })
    }

    /// The reason to send to the client when the connection must end at once.
    pub(crate) fn broken(&self) -> Option<Reason> {
        self.broken.get().copied()
    }

    /// Ends the connection at once, keeping an earlier reason if there is one.
    #[cold]
    pub(crate) fn end_for(&self, reason: Reason) {
        self.broken.get_or_init(|| reason);
        self.sooner.notify_one();
    }

    /// Resolves when a timer expires, when the client's frames end the connection, or when it is idle and must make
    /// room for a new one.
    pub(crate) async fn overdue(&self, timers: &Timers, evictions: &Evictions) -> Overdue {
        loop {
            if self.broken().is_some() {
                return Overdue::Broken;
            }
            let now = Instant::now();
            let by_state = self.lock().deadline(timers);
            let by_reader = self.backlog.deadline().filter(|end| *end < by_state.0);
            let (deadline, overdue) = by_reader.map_or(by_state, |end| (end, Overdue::SlowReader));
            if deadline <= now {
                return overdue;
            }
            let may_go = self.may_go(now);
            let look = if may_go { deadline } else { deadline.min(now + IDLE_PATIENCE) };
            let look = self.backlog.looks_again(now).map_or(look, |end| end.min(look));
            tokio::select! {
                () = sleep_until(look) => {}
                () = self.sooner.notified() => {}
                () = evictions.evicted(), if may_go => self.make_room(evictions),
            }
        }
    }

    /// Whether the connection has been without a request long enough to be closed to make room.
    fn may_go(&self, now: Instant) -> bool {
        let doing = self.lock();
        match doing.state {
            State::Silent { since } | State::Idle { since } => {
                // An unfinished head does not protect the connection either.
                doing.half_head.unwrap_or(since).max(since) + IDLE_PATIENCE <= now
            }
            State::Busy { .. } => false,
        }
    }

    /// Ends the connection unless a request has arrived meanwhile. Later requests are not processed, which the GOAWAY
    /// tells the client.
    fn make_room(&self, evictions: &Evictions) {
        if self.may_go(Instant::now()) {
            evictions.close();
            self.broken.get_or_init(|| Reason::NO_ERROR);
        } else {
            evictions.pass_on();
        }
    }

    fn bytes_read(&self, bytes: &[u8]) -> Reading {
        let read = {
            let mut doing = self.lock();
            doing.read(bytes, Instant::now()).map(|nearer| (nearer, doing.frames.is_pause_due()))
        };
        if !matches!(read, Ok((false, _))) {
            self.sooner.notify_one();
        }
        match read {
            Ok((_, false)) => Reading::GoesOn,
            Ok((_, true)) => Reading::Pauses,
            Err(reason) => {
                self.broken.get_or_init(|| reason);
                Reading::Ends
            }
        }
    }

    /// The bytes waiting to be sent on the connection.
    pub(crate) const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Records that the socket takes nothing more at the moment.
    #[cold]
    fn blocked(&self) {
        if self.backlog.stall(Instant::now()) {
            self.sooner.notify_one();
        }
    }

    /// Records that the socket has taken everything after a flush that waited.
    #[cold]
    fn flushed(&self) {
        self.backlog.take(0, Instant::now);
    }

    fn bytes_written<'a>(&self, length: usize, slices: impl Iterator<Item = &'a [u8]>) {
        self.backlog.take(length, Instant::now);
        let doing = &mut *self.lock();
        if let State::Busy { moved, .. } = &mut doing.state {
            *moved = Instant::now();
        }
        slices.for_each(|bytes| doing.frames.send(bytes));
    }

    fn end(&self, head_bytes: usize, reads_away: bool) {
        let doing = &mut *self.lock();
        doing.head_bytes = doing.head_bytes.saturating_sub(head_bytes);
        doing.read_away = doing.read_away.saturating_sub(u8::from(reads_away));
        if let State::Busy { requests, moved } = doing.state {
            doing.state = match requests {
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
            State::Silent { since } => (since + timers.head, Overdue::Head),
            State::Idle { since } => (since + timers.keep_alive, Overdue::KeepAlive),
            State::Busy { moved, .. } => (moved + timers.stream_idle, Overdue::Stalled),
        };
        match self.half_head {
            Some(since) if since + timers.head < by_state.0 => (since + timers.head, Overdue::Head),
            _ => by_state,
        }
    }

    /// Records the meaning of the bytes. `true` if the deadline may have moved closer; an error ends the connection.
    fn read(&mut self, bytes: &[u8], now: Instant) -> Result<bool, Reason> {
        let before = self.half_head.is_some();
        self.half_head = match self.frames.receive(bytes, now)? {
            HalfHead::None => None,
            HalfHead::Began => Some(now),
            HalfHead::Still => self.half_head.or(Some(now)),
        };
        match &mut self.state {
            State::Busy { moved, .. } => *moved = now,
            State::Silent { .. } => self.state = State::Idle { since: now },
            State::Idle { .. } => {}
        }
        Ok(self.half_head.is_some() && !before)
    }
}

/// A request running on a connection.
#[derive(Debug)]
pub(crate) struct Busy {
    activity: Arc<Activity>,
    head_bytes: usize,
    has_body: bool,
    reads_away: bool,
}

impl Busy {
    /// Whether the body was still to come when the request started.
    pub(crate) const fn has_body(&self) -> bool {
        self.has_body
    }

    /// The bytes waiting to be sent on the connection.
    pub(crate) fn backlog(&self) -> &Backlog {
        self.activity.backlog()
    }

    /// Counts the request's body among those read and dropped; `false` if the connection is at its limit.
    #[cold]
    pub(crate) fn may_read_away(&mut self) -> bool {
        let doing = &mut *self.activity.lock();
        if !self.reads_away && doing.read_away < MAX_READ_AWAY {
            doing.read_away += 1;
            self.reads_away = true;
        }
        self.reads_away
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.end(self.head_bytes, self.reads_away);
    }
}

/// How reading continues after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    GoesOn,
    /// Reading yields to other connections first.
    Pauses,
    /// These bytes end the connection and must not reach `h2`.
    Ends,
}

/// A socket that reports moved bytes to its connection's [`Activity`].
pub(crate) struct Watched<S> {
    socket: S,
    activity: Arc<Activity>,
    pausing: bool,
    /// Whether the latest flush waited.
    is_flush_blocked: bool,
}

impl<S> Watched<S> {
    pub(crate) const fn new(socket: S, activity: Arc<Activity>) -> Self {
        Self { socket, activity, pausing: false, is_flush_blocked: false }
    }

    /// Records how many bytes of these slices were written.
    fn wrote(&self, polled: &Poll<io::Result<usize>>, slices: &[io::IoSlice<'_>]) {
        let length = match polled {
            Poll::Ready(Ok(length @ 1..)) => length,
            Poll::Ready(Ok(0) | Err(_)) => return,
            Poll::Pending => return self.activity.blocked(),
        };
        let mut left = *length;
        let written = slices.iter().map(|slice| {
            let written = slice.get(..left.min(slice.len())).unwrap_or_default();
            left -= written.len();
            written
        });
        self.activity.bytes_written(*length, written);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.activity.broken().is_some() {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.pausing) {
            give_way(context);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            match self.activity.bytes_read(bytes) {
                Reading::GoesOn => {}
                Reading::Pauses => self.pausing = true,
                Reading::Ends => {
                    buffer.set_filled(before);
                    // The task that polls the connection checks `broken`.
                    return Poll::Pending;
                }
            }
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
        self.wrote(&polled, &[io::IoSlice::new(bytes)]);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.wrote(&polled, slices);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_flush(context);
        if polled.is_pending() {
            // TLS takes what the socket does not, so a client may stop reading without a write that waits.
            self.is_flush_blocked = true;
            self.activity.blocked();
        } else if std::mem::take(&mut self.is_flush_blocked) {
            self.activity.flushed();
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
