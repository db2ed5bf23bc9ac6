//! One client's HTTP/1.1 connection: reads heads, passes each request to the handler, and writes the answers in order,
//! until the client leaves, a timer expires, input is malformed, or a drain begins. One task does all of it; a
//! request's body is read only on demand.

mod line;

use crate::http::h1::HeadError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{CONNECTION, DATE};
use http::{Method, Request, Response, StatusCode, response};
use http_body::Body as _;
use tokio::time::{Instant, timeout};

use crate::body::request::{Client, RequestBody};
use crate::config::LeastRate;
use crate::control::drain::Watch;
use crate::http::alarm::Alarm;
use crate::http::credit::{Credit, SlowReader};
use crate::http::h1::framing;
use crate::http::h1::framing::Length;
use crate::http::h1::head::RequestHead;
use crate::http::h1::output::Coding;
use crate::http::peer::Peer;
use crate::response::body::EdgeBody;
use crate::server::evictions::{Evictions, IDLE_PATIENCE};
use crate::server::http1::line::{Line, Through};
use crate::server::{Handler, Server};
use crate::upstream::socket::ClientSocket;

/// How long an idle connection still accepts input after the drain began, so that a request in transit is not lost.
const DRAIN_GRACE: Duration = Duration::from_secs(1);
/// How long the rest of a refused request is read, so that its client sees the answer instead of a reset.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum read after the shutdown: a client that is still sending must see the answer before the reset.
const MAX_LINGERED: usize = 4 << 20;
/// The maximum read of an unread body to keep the connection.
const MAX_DISCARDED: usize = 64 << 10;

/// A client's connection.
pub(crate) struct Connection<S, H> {
    server: Arc<Server<H>>,
    line: Arc<Line<S>>,
    peer: Peer,
    alarm: Alarm,
    drain: Watch,
    /// The current request has a body.
    has_body: bool,
}

/// What happens to the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Again,
    Close,
    /// Close once the client has had time to read the answer.
    Linger,
    /// The exchange broke off: the answer must not look complete.
    Drop,
}

/// Why no further request is read.
enum Quiet {
    Leave,
    Refuse(HeadError),
    Drop,
}

impl<S, H> Connection<S, H>
where
    S: ClientSocket,
    H: Handler,
{
    pub(crate) fn new(server: Arc<Server<H>>, socket: S, peer: Peer) -> Self {
        let drain = server.drain.watch();
        let alarm = Alarm::at(Instant::now() + server.timers.head);
        Self { line: Arc::new(Line::new(socket)), alarm, drain, has_body: false, server, peer }
    }

    /// Serves the connection to its end. Takes a reference, because the future would otherwise hold the connection
    /// twice.
    pub(crate) async fn serve(&mut self) {
        let mut first = true;
        loop {
            let then = match self.head(first).await {
                Ok(head) => self.exchange(head).await,
                Err(Quiet::Leave) => Then::Close,
                Err(Quiet::Refuse(fault)) => self.refuse(fault).await,
                Err(Quiet::Drop) => Then::Drop,
            };
            first = false;
            match then {
                Then::Again => {}
                Then::Close => return self.close(false).await,
                Then::Linger => return self.close(true).await,
                Then::Drop => return,
            }
        }
    }

    /// Reads the next request's head. A connection that has waited a while for it, or for the rest of it, may have to
    /// make room for another.
    async fn head(&mut self, first: bool) -> Result<RequestHead, Quiet> {
        let timers = self.server.timers;
        let now = Instant::now();
        let mut deadline = now + if first { timers.head } else { timers.keep_alive };
        self.alarm.set(deadline.min(now + IDLE_PATIENCE));
        let (line, alarm, drain) = (&self.line, &mut self.alarm, &mut self.drain);
        let limits = &self.server.limits;
        let mut evicted: Option<BoxFuture<'static, ()>> = None;
        let (mut begun, mut leaving) = (false, false);
        poll_fn(|context| {
            let mut has_input = begun;
            match line.poll_head(context, limits, &mut has_input) {
                Poll::Ready(Ok(Some(head))) => return Poll::Ready(Ok(head)),
                Poll::Ready(Ok(None)) => return Poll::Ready(Err(Quiet::Leave)),
                Poll::Ready(Err(Some(fault))) => {
                    return Poll::Ready(Err(Quiet::Refuse(HeadError::Fault(fault))));
                }
                Poll::Ready(Err(None)) => return Poll::Ready(Err(Quiet::Drop)),
                Poll::Pending => {}
            }
            if !begun && has_input {
                begun = true;
                evicted = None;
                let now = Instant::now();
                deadline = now + timers.head;
                alarm.set(deadline.min(now + IDLE_PATIENCE));
            }
            if !begun && !leaving && drain.poll(context).is_ready() {
                leaving = true;
                alarm.set(Instant::now() + DRAIN_GRACE);
            }
            loop {
                if evicted.as_mut().is_some_and(|evicted| evicted.as_mut().poll(context).is_ready()) {
                    return Poll::Ready(Err(Quiet::Leave));
                }
                ready!(alarm.poll(context));
                if leaving || evicted.is_some() || deadline <= Instant::now() {
                    break;
                }
                evicted = Some(eviction(&self.server.evictions));
                alarm.set(deadline);
            }
            Poll::Ready(Err(if begun { Quiet::Refuse(HeadError::Late) } else { Quiet::Leave }))
        })
        .await
    }

    async fn exchange(&mut self, head: RequestHead) -> Then {
        let RequestHead { method, uri, version, headers, length, close, .. } = head;
        self.has_body = length != Length::Exact(0);
        let line = Arc::clone(&self.line);
        let client: Arc<dyn Client> = line;
        let mut request = Request::new(RequestBody::http1(client, !self.has_body));
        let is_head = method == Method::HEAD;
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.version_mut() = version;
        *request.headers_mut() = headers;
        let answered = {
            let mut run = Box::pin(self.server.handler.handle(self.peer, request));
            let line = &self.line;
            poll_fn(|context| {
                if let Poll::Ready(response) = run.as_mut().poll(context) {
                    return Poll::Ready(Some(response));
                }
                line.poll_gone(context).map(|()| None)
            })
            .await
        };
        match answered {
            Some(response) => self.answer(response, is_head, close).await,
            None => Then::Drop,
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, refused: HeadError) -> BoxFuture<'_, Then> {
        Box::pin(async move {
            let response = self.server.handler.refuse(self.peer, refused);
            match self.answer(response, false, true).await {
                Then::Again | Then::Close | Then::Linger => Then::Linger,
                Then::Drop => Then::Drop,
            }
        })
    }

    async fn answer(&mut self, response: Response<EdgeBody>, is_head: bool, close: bool) -> Then {
        let (parts, mut body) = response.into_parts();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return self.tunnel(parts, body).await;
        }
        let (coding, keep) = self.put_head(&parts, &body, is_head, !close && !self.drain.has_begun());
        let ended = is_head || framing::has_no_body(parts.status);
        let timers = &self.server.timers;
        let mut pump = Pump::new(coding, ended, timers.least_rate, timers.stream_idle);
        let (line, alarm) = (&self.line, &mut self.alarm);
        let sent = poll_fn(|context| pump.poll(line, Pin::new(&mut body), alarm, context)).await;
        if let Err(Gone::CutOff(why)) = sent {
            body.cut_off(why);
            self.server.meter.tally.cut_off(why);
        }
        drop(body);
        match sent {
            Err(Gone::Client | Gone::CutOff(_)) => Then::Drop,
            Ok(()) if !keep => {
                if self.line.is_read() {
                    Then::Close
                } else {
                    Then::Linger
                }
            }
            Ok(()) => self.discard().await,
        }
    }

    /// Writes the answer's head; also returns whether the connection is kept.
    fn put_head(
        &self,
        parts: &response::Parts,
        body: &EdgeBody,
        is_head: bool,
        may_keep: bool,
    ) -> (Coding, bool) {
        let without = is_head || framing::has_no_body(parts.status);
        let length = body.size_hint().exact();
        self.line.put_answer(|output, can_go_on| {
            let keep = may_keep && can_go_on;
            output.put_status_line(parts.status);
            output.put_headers(&parts.headers);
            if !parts.headers.contains_key(DATE) {
                output.put(b"date: ");
                output.put(self.server.dates.now().as_bytes());
                output.put(b"\r\n");
            }
            if !keep {
                output.put(b"connection: close\r\n");
            }
            let coding = match length {
                _ if without => Coding::Plain,
                Some(length) => {
                    output.put_length(length);
                    Coding::Plain
                }
                None => {
                    output.put(b"transfer-encoding: chunked\r\n");
                    Coding::Chunked
                }
            };
            output.put(b"\r\n");
            (coding, keep)
        })
    }

    /// Reads a bounded rest of an unread body, so that the connection can be kept.
    async fn discard(&self) -> Then {
        if !self.has_body || self.line.is_read() { Then::Again } else { self.read_away().await }
    }

    #[cold]
    #[inline(never)]
    fn read_away(&self) -> BoxFuture<'_, Then> {
        Box::pin(async {
            let line = &self.line;
            let mut left = MAX_DISCARDED;
            let discarded = timeout(LINGER, poll_fn(|context| line.poll_discard(context, &mut left))).await;
            if matches!(discarded, Ok(true)) { Then::Again } else { Then::Linger }
        })
    }

    #[cold]
    #[inline(never)]
    fn tunnel(&self, parts: response::Parts, mut body: EdgeBody) -> BoxFuture<'_, Then> {
        Box::pin(async move {
            let Some(tunnel) = body.take_tunnel() else { return Then::Drop };
            self.line.put(|output| {
                output.put_status_line(parts.status);
                output.put_headers(&parts.headers);
                if !parts.headers.contains_key(CONNECTION) {
                    output.put(b"connection: upgrade\r\n");
                }
                output.put(b"\r\n");
            });
            let (client, early) = Through::of(&self.line);
            let carried = self.server.end.run_until_cancelled(tunnel.run(client, early)).await;
            tracing::debug!(?carried, "a tunnel ended");
            Then::Drop
        })
    }

    /// Shuts the connection down.
    #[cold]
    #[inline(never)]
    fn close(&self, linger: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let line = &self.line;
            let goodbye = async {
                if poll_fn(|context| line.poll_shutdown(context)).await.is_ok() && linger {
                    let mut left = MAX_LINGERED;
                    poll_fn(|context| line.poll_drain(context, &mut left)).await;
                }
            };
            // Do not wait for a client that does not respond to the shutdown.
            let in_time = timeout(LINGER, goodbye).await;
            tracing::trace!(?in_time, "closed");
        })
    }
}

/// Resolves when an idle connection must make room for another. Boxed, because few connections are idle that long and
/// the others should not reserve space for it.
#[cold]
#[inline(never)]
fn eviction(evictions: &Arc<Evictions>) -> BoxFuture<'static, ()> {
    let evictions = Arc::clone(evictions);
    Box::pin(async move {
        evictions.evicted().await;
        evictions.close();
    })
}

/// Why the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// The client has left, or the answer broke off.
    Client,
    CutOff(SlowReader),
}

/// Sends an answer's body.
struct Pump {
    coding: Coding,
    ended: bool,
    /// The output may be full.
    full: bool,
    /// Bytes given to the line, and how many of them the client had taken at the last check.
    given: usize,
    taken: usize,
    credit: Credit,
    longest_pause: Duration,
}

impl Pump {
    fn new(coding: Coding, ended: bool, rate: LeastRate, longest_pause: Duration) -> Self {
        Self { coding, ended, full: false, given: 0, taken: 0, credit: Credit::new(rate), longest_pause }
    }

    fn poll<S>(
        &mut self,
        line: &Line<S>,
        mut body: Pin<&mut EdgeBody>,
        alarm: &mut Alarm,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>>
    where
        S: ClientSocket,
    {
        loop {
            if self.ended {
                return match line.poll_send(context) {
                    Poll::Ready(sent) => Poll::Ready(sent.map_err(|_| Gone::Client)),
                    Poll::Pending => self.poll_stalled(line.left(), &mut body, alarm, context),
                };
            }
            if self.full {
                match line.poll_room(context) {
                    Poll::Ready(Ok(())) => self.full = false,
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Gone::Client)),
                    Poll::Pending => return self.poll_stalled(line.left(), &mut body, alarm, context),
                }
            }
            match body.as_mut().poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => self.put(line, frame, body.is_end_stream()),
                Poll::Ready(None) => self.end(line, None),
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "an answer broke off");
                    // Bytes from before the error are sent; the end of the body never is.
                    let _tried = line.poll_send(context);
                    return Poll::Ready(Err(Gone::Client));
                }
                Poll::Pending => {
                    return match line.poll_send(context) {
                        Poll::Ready(Err(_)) => Poll::Ready(Err(Gone::Client)),
                        Poll::Ready(Ok(())) => {
                            self.goes_on(0);
                            line.poll_gone(context).map(|()| Err(Gone::Client))
                        }
                        Poll::Pending => self.poll_stalled(line.left(), &mut body, alarm, context),
                    };
                }
            }
        }
    }

    fn put<S>(&mut self, line: &Line<S>, frame: http_body::Frame<bytes::Bytes>, last: bool) {
        self.full = true;
        match frame.into_data() {
            Ok(data) => {
                self.given = self.given.saturating_add(data.len());
                line.put(|output| output.put_data(data, self.coding));
            }
            Err(frame) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                crate::http::trailers::strip(&mut trailers);
                return self.end(line, Some(&trailers));
            }
        }
        if last && self.coding == Coding::Plain {
            self.ended = true;
        }
    }

    fn end<S>(&mut self, line: &Line<S>, trailers: Option<&http::HeaderMap>) {
        self.ended = true;
        line.put(|output| output.put_end(self.coding, trailers));
    }

    /// Waits while the client takes nothing: until its credit runs out or the longest pause has passed.
    fn poll_stalled(
        &mut self,
        left: usize,
        body: &mut EdgeBody,
        alarm: &mut Alarm,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        let moved = self.goes_on(left);
        if moved || !self.credit.is_waiting() {
            let now = Instant::now();
            body.stalled(now);
            let (credit, pause) = (self.credit.wait(now), now + self.longest_pause);
            alarm.set(credit.map_or(pause, |credit| credit.min(pause)));
        }
        alarm.poll(context).map(|()| Err(Gone::CutOff(self.credit.slow_reader(Instant::now()))))
    }

    /// Records what the client has taken; returns whether that is more than before.
    fn goes_on(&mut self, left: usize) -> bool {
        let taken = self.given.saturating_sub(left);
        let more = taken.saturating_sub(self.taken);
        self.taken = self.taken.max(taken);
        if more > 0 {
            self.credit.moved(more, Instant::now);
        }
        more > 0
    }
}
