//! [`Multiplexed`]: an open HTTP/2 connection to an upstream, which carries many requests. Its own task moves its
//! frames. While a request waits for its answer the upstream is pinged, and a connection that does not respond is
//! dropped with everything on it: nothing else reveals that the peer is gone without a GOAWAY.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use http::HeaderMap;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Budgets;
use crate::upstream::http2::head_limit::HeadLimit;
use crate::upstream::http2::paced::Paced;
use crate::upstream::socket::Socket;

/// Concurrent requests per connection, or fewer if the upstream allows fewer; further ones use another connection.
/// Servers should allow at least this many (RFC 9113, 6.5.2), so this many are sent before the upstream has announced
/// its limit.
const MAX_STREAMS: u32 = 100;
/// The window of one stream; the client's own window is what holds an answer back.
const STREAM_WINDOW: u32 = 256 << 10;
/// The sum of all stream windows: answers that their clients do not read must not block others.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;
/// Bytes of requests that wait for the upstream's window, per stream.
const MAX_UNSENT: usize = 1 << 20;
/// The maximum size of an answer's head, the same as over HTTP/1.1.
const MAX_HEAD: u32 = 64 << 10;

/// The first-byte budget is divided into `PARTS`. After the first part, by which most answers have arrived, the
/// connection is pinged; a ping's answer may take two parts, so that a dead connection is detected within the budget.
const PARTS: u32 = 5;
const PARTS_BEFORE_DOUBT: u32 = 1;
const PARTS_FOR_PING: u32 = 2;

/// How long a request waits before its connection is pinged.
pub(crate) fn doubt_after(budgets: &Budgets) -> Duration {
    budgets.first_byte / PARTS * PARTS_BEFORE_DOUBT
}

/// How long a ping's answer may take, and the minimum time between two pings.
pub(crate) fn ping_patience(budgets: &Budgets) -> Duration {
    budgets.first_byte / PARTS * PARTS_FOR_PING
}

/// A connection. Closes when the last clone and the last request are gone.
#[derive(Clone, Debug)]
pub(crate) struct Multiplexed {
    sender: SendRequest<Bytes>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Takes no further request.
    retired: AtomicBool,
    /// Running requests.
    busy: AtomicUsize,
    /// Bodies that wait for the upstream to take more. The whole connection's window may be used up.
    held_up: AtomicUsize,
    /// Requests a ping, because a request waits.
    doubted: Notify,
    /// Ends the connection, even with requests in progress.
    end: CancellationToken,
    head_limit: Arc<HeadLimit>,
}

/// The right to send one request, counted on its connection until it is dropped.
pub(crate) struct Slot {
    pub(crate) sender: SendRequest<Bytes>,
    pub(crate) busy: Busy,
}

/// One running request on a connection, counted until it is dropped.
pub(crate) struct Busy(Arc<State>);

/// The body of one request, which may have to wait for the upstream's window.
pub(crate) struct Sending {
    state: Arc<State>,
    is_held_up: bool,
}

impl Sending {
    /// Whether the upstream accepts these trailers.
    pub(crate) fn takes_trailers(&self, trailers: &HeaderMap) -> bool {
        self.state.head_limit.takes_trailers(trailers)
    }

    /// Records whether the body waits; while one does, no further request starts on its connection.
    pub(crate) fn set_held_up(&mut self, is_held_up: bool) {
        if is_held_up == self.is_held_up {
            return;
        }
        self.is_held_up = is_held_up;
        if is_held_up {
            self.state.held_up.fetch_add(1, Ordering::Relaxed);
        } else {
            self.state.held_up.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.set_held_up(false);
    }
}

impl Busy {
    fn on(state: &Arc<State>) -> Self {
        state.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(state))
    }

    /// The head size that the upstream accepts.
    pub(crate) fn head_limit(&self) -> &HeadLimit {
        &self.0.head_limit
    }

    /// Returns the counter of the request's body.
    pub(crate) fn sending(&self) -> Sending {
        Sending { state: Arc::clone(&self.0), is_held_up: false }
    }

    /// Whether no other request is running.
    fn is_alone(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) == 1
    }

    /// Requests a ping.
    pub(crate) fn doubt(&self) {
        self.0.doubted.notify_one();
    }

    /// Stops taking requests. Running ones continue as long as pings are answered.
    pub(crate) fn retire(&self) {
        self.0.retire();
        self.doubt();
    }

    /// Ends the connection with everything on it.
    pub(crate) fn end(&self) {
        self.0.retire();
        self.0.end.cancel();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Multiplexed {
    /// Opens an HTTP/2 connection on this socket. An upstream that leaves a ping unanswered for `patience` is
    /// considered dead.
    pub(crate) async fn open(socket: Socket, patience: Duration) -> Result<Self, h2::Error> {
        let mut builder = Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(MAX_UNSENT)
            .initial_max_send_streams(most_streams())
            .max_header_list_size(MAX_HEAD)
            .enable_push(false);
        let state = Arc::new(State::default());
        let socket = Paced::new(socket, Arc::clone(&state.head_limit));
        let (sender, connection) = builder.handshake(socket).await?;
        tokio::spawn(drive(connection, Arc::clone(&state), patience));
        Ok(Self { sender, state })
    }

    /// Whether it takes further requests, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.state.is_retired()
    }

    /// Whether no request is running on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.busy.load(Ordering::Relaxed) == 0
    }

    /// Returns a slot for one more request; `None` if the connection is at its limit, holds a body that the upstream
    /// does not take, or takes no more requests.
    pub(crate) fn slot(&self) -> Option<Slot> {
        let most = most_streams().min(self.sender.current_max_send_streams());
        let is_held_up = self.state.held_up.load(Ordering::Relaxed) > 0;
        let has_room = self.is_open() && !is_held_up && self.state.busy.load(Ordering::Relaxed) < most;
        has_room.then(|| self.first_slot())
    }

    /// Returns a slot on a connection that was just opened, regardless of the upstream's stream limit.
    pub(crate) fn first_slot(&self) -> Slot {
        Slot { sender: self.sender.clone(), busy: Busy::on(&self.state) }
    }
}

impl Slot {
    /// Waits until the request can be sent; `None` if the connection takes no more.
    pub(crate) async fn ready(mut self) -> Option<Self> {
        if self.busy.is_alone() {
            // Let the connection's task first read what arrived while it was idle: it may be the end.
            let mut seen = false;
            poll_fn(|context| {
                if std::mem::replace(&mut seen, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        poll_fn(|context| self.sender.poll_ready(context)).await.ok()?;
        (!self.busy.0.is_retired()).then_some(self)
    }
}

fn most_streams() -> usize {
    usize::try_from(MAX_STREAMS).unwrap_or(usize::MAX)
}

impl State {
    fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }
}

/// Moves frames until the connection ends.
async fn drive(mut connection: Connection<Paced<Socket>, Bytes>, state: Arc<State>, patience: Duration) {
    // Retires the connection however this task ends.
    let state = scopeguard::guard(state, |state| state.retire());
    let pings = connection.ping_pong();
    let moved = async {
        tokio::select! {
            biased;
            ended = connection => ended.map_err(Ended::Http2),
            () = silence(pings, &state.doubted, patience) => Err(Ended::Silent),
        }
    };
    if let Some(Err(error)) = state.end.run_until_cancelled(moved).await {
        tracing::debug!(%error, "an HTTP/2 upstream connection ended");
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Http2(h2::Error),
    #[error("the upstream leaves a ping unanswered")]
    Silent,
}

/// Resolves when a ping stays unanswered. A ping is sent on request, but not soon after an answered one: some upstreams
/// take many pings for an attack.
async fn silence(pings: Option<PingPong>, doubted: &Notify, patience: Duration) {
    // `None` only if the handle was taken before.
    let Some(mut pings) = pings else { return std::future::pending().await };
    let mut heard: Option<Instant> = None;
    loop {
        doubted.notified().await;
        if heard.is_some_and(|heard| heard.elapsed() < patience) {
            continue;
        }
        let answered = timeout(patience, pings.ping(Ping::opaque())).await;
        if !matches!(answered, Ok(Ok(_))) {
            return;
        }
        heard = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// An empty SETTINGS frame, and its acknowledgement.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const TAKEN: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (dialled.expect("a connection"), accepted.expect("a connection").0)
    }

    /// An open connection without requests, and its upstream.
    async fn idle() -> (Multiplexed, TcpStream) {
        let (socket, mut upstream) = pair().await;
        let opened = Multiplexed::open(Socket::plain(socket), Duration::from_mins(1)).await;
        upstream.write_all(&SETTINGS).await.expect("written");
        let mut came = Vec::new();
        while !came.ends_with(&TAKEN) {
            upstream.read_buf(&mut came).await.expect("the greeting and the answer to the upstream's");
        }
        (opened.expect("a connection"), upstream)
    }

    #[tokio::test]
    async fn an_end_that_came_together_with_a_request_is_seen_before_the_request_is_sent() {
        for ends in [false, true] {
            let (connection, upstream) = idle().await;
            let (request, mut client) = pair().await;
            let slot = tokio::spawn(async move {
                request.readable().await.expect("a request");
                connection.slot()?.ready().await.map(|_| ())
            });
            tokio::task::yield_now().await;
            client.write_all(b"a request").await.expect("written");
            // Before this task waits, so that both are known at once.
            let kept = (!ends).then_some(upstream);
            assert_eq!(slot.await.expect("no panic").is_some(), !ends);
            drop(kept);
        }
    }

    #[tokio::test]
    async fn a_connection_on_which_a_body_waits_for_the_upstream_has_no_room() {
        let (connection, _upstream) = idle().await;
        let slot = connection.slot().expect("room");
        let mut bodies = [slot.busy.sending(), slot.busy.sending()];
        assert!(connection.slot().is_some(), "they do not wait");
        for body in &mut bodies {
            body.set_held_up(true);
        }
        let [mut first, second] = bodies;
        first.set_held_up(true);
        first.set_held_up(false);
        assert!(connection.slot().is_none(), "the other one waits still");
        drop(second);
        assert!(connection.slot().is_some());
    }

    #[tokio::test]
    async fn a_connection_has_room_for_as_many_requests_as_it_may_carry_and_no_more() {
        let (connection, _upstream) = idle().await;
        let slots: Vec<Slot> = std::iter::from_fn(|| connection.slot()).take(2 * most_streams()).collect();
        assert_eq!(slots.len(), most_streams());
        assert!(!connection.is_idle());
        drop(slots);
        assert!(connection.is_idle() && connection.slot().is_some(), "each was given back");
    }
}
