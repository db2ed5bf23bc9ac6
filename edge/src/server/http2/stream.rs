//! Serves one request on its stream: passes it to the handler and sends its answer, or runs the tunnel it asked for. A
//! client that resets the stream cancels the work for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, SEC_WEBSOCKET_ACCEPT, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::body::h2::receiving::Receiving;
use crate::body::h2::reply::Reply;
use crate::body::h2::unwanted::read_away;
use crate::body::request::RequestBody;
use crate::config::Timers;
use crate::http::h1::framing::has_no_body;
use crate::http::h2::blocks::Marks;
use crate::http::headers::size_of;
use crate::http::peer::Peer;
use crate::response::body::EdgeBody;
use crate::server::activity::Busy;
use crate::server::backlog::Backlog;
use crate::server::http2::pump::{Pump, Unsent};
use crate::server::http2::through::Through;
use crate::server::{Handler, Server};
use crate::upstream::tunnel::Tunnel;

/// The limit counted for requests that are reset right after their answers because too many bodies are being read and
/// dropped.
const UNWANTED_BODIES: &str = "unwanted_bodies";

/// Serves the stream to its end. `busy` keeps the connection busy until then.
pub(crate) async fn serve<H: Handler>(
    server: Arc<Server<H>>,
    peer: Peer,
    busy: Busy,
    marks: Arc<Marks>,
    request: Request<RecvStream>,
    reply: SendResponse<Bytes>,
) {
    let reply = Arc::new(Reply::new(reply));
    let is_head = *request.method() == Method::HEAD;
    let (request, mut bare) = taken_in(request, marks, &reply);
    let answered = {
        let mut run = Box::pin(server.handler.handle(peer, request));
        poll_fn(|context| match run.as_mut().poll(context) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => reply.poll_gone(context).map(|()| None),
        })
        .await
    };
    let Some(mut response) = answered else { return };
    if let Some(tunnel) = response.body_mut().take_tunnel()
        && let Some(from) = bare.take()
    {
        return carry(&server, &reply, response, tunnel, from, busy);
    }
    let (head, mut body) = response.into_parts();
    if !(busy.backlog().has_room() || comes_to_have_room(busy.backlog(), &server.timers).await) {
        reply.reset(Reason::CANCEL);
        return;
    }
    busy.backlog().give(size_of(&head.headers));
    let Ok(to) = begin(&server, &reply, Response::from_parts(head, ()), &body, is_head) else { return };
    if let Some(to) = to {
        let timers = &server.timers;
        let mut pump = Pump::new(to, timers.least_rate, timers.stream_idle, busy.backlog());
        let sent = poll_fn(|context| pump.poll(Pin::new(&mut body), context)).await;
        if let Err(error) = sent {
            if let Unsent::CutOff(why) = error {
                body.cut_off(why);
                server.meter.tally.cut_off(why);
            }
            tracing::debug!(%error, "an answer over HTTP/2 broke off");
            return;
        }
    }
    drop(body);
    if busy.has_body() {
        take_leave(&server, &reply, bare, busy).await;
    }
}

/// Waits for room in the backlog while the client does not read its other streams; `false` if that takes too long.
#[cold]
#[inline(never)]
fn comes_to_have_room<'a>(backlog: &'a Backlog, timers: &Timers) -> BoxFuture<'a, bool> {
    let room = timeout(timers.stream_idle, poll_fn(|context| backlog.poll_room(context)));
    Box::pin(async { room.await.is_ok() })
}

/// After the answer, reads and drops the unread rest of the request's body, within bounds.
#[cold]
#[inline(never)]
fn take_leave<'a, H: Handler>(
    server: &'a Server<H>,
    reply: &'a Arc<Reply>,
    bare: Option<RecvStream>,
    mut busy: Busy,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        if Arc::strong_count(reply) > 1 {
            // The task that sends the body to an HTTP/2 upstream has been told to end, and drops the body when it runs
            // next.
            yield_now().await;
        }
        let Some(rest) = bare.or_else(|| reply.take_unread()) else { return };
        if busy.may_read_away() {
            read_away(rest).await;
        } else {
            server.meter.tally.limited(UNWANTED_BODIES);
        }
    })
}

/// Splits off the request with its body; for CONNECT, keeps the bare stream apart for a tunnel.
fn taken_in(
    request: Request<RecvStream>,
    marks: Arc<Marks>,
    reply: &Arc<Reply>,
) -> (Request<RequestBody>, Option<RecvStream>) {
    let reply = Arc::clone(reply);
    let (head, stream) = request.into_parts();
    if head.method == Method::CONNECT {
        return (Request::from_parts(head, RequestBody::http2(Receiving::none(marks, reply))), Some(stream));
    }
    let body = Receiving::new(stream, &head.headers, marks, reply);
    (Request::from_parts(head, RequestBody::http2(body)), None)
}

/// Sends the head. Returns the stream for the body, if there is one; an error if the head cannot be sent.
fn begin<H>(
    server: &Server<H>,
    reply: &Reply,
    mut head: Response<()>,
    body: &EdgeBody,
    is_head: bool,
) -> Result<Option<SendStream<Bytes>>, h2::Error> {
    let ended = is_head || has_no_body(head.status()) || body.is_end_stream();
    let headers = head.headers_mut();
    headers.entry(DATE).or_insert_with(|| server.dates.now());
    if let Some(length) = body.size_hint().exact().filter(|_| !ended) {
        headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    let to = answer(reply, head, ended)?;
    Ok((!ended).then_some(to))
}

fn answer(reply: &Reply, head: Response<()>, ended: bool) -> Result<SendStream<Bytes>, h2::Error> {
    reply.answer(head, ended).inspect_err(|error| {
        tracing::debug!(%error, "cannot start an answer over HTTP/2");
        reply.reset(Reason::INTERNAL_ERROR);
    })
}

/// Spawns a task that carries the other protocol until it ends or the drain is over: the stream is now the client's end
/// of the tunnel (RFC 8441).
#[cold]
#[inline(never)]
fn carry<H>(
    server: &Server<H>,
    reply: &Reply,
    response: Response<EdgeBody>,
    tunnel: Tunnel,
    from: RecvStream,
    busy: Busy,
) {
    let mut head = response.map(|_| ());
    *head.status_mut() = StatusCode::OK;
    for name in [UPGRADE, CONNECTION, SEC_WEBSOCKET_ACCEPT] {
        head.headers_mut().remove(name);
    }
    head.headers_mut().entry(DATE).or_insert_with(|| server.dates.now());
    let Ok(to) = answer(reply, head, false) else { return };
    let end = server.end.clone();
    server.tasks.spawn(async move {
        let carried = end.run_until_cancelled(tunnel.run(Through::new(from, to), BytesMut::new())).await;
        tracing::debug!(?carried, "a tunnel ended");
        drop(busy);
    });
}
