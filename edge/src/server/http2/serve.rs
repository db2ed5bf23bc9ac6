//! One client's HTTP/2 connection: accepts streams and serves each in its own task, until the client leaves, a timer
//! expires, input is malformed, or a drain begins.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Connection, Handshake};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::http::credit::SlowReader;
use crate::http::h2::HasFragment;
use crate::http::h2::blocks::{Blocks, Mark, Marks};
use crate::http::headers::{has_padded_value, size_of};
use crate::http::peer::Peer;
use crate::metrics::tally::Closed;
use crate::server::activity::{Activity, Overdue, Watched};
use crate::server::http2::{LOCAL_ERROR_RESETS, stream};
use crate::server::writes::{Broken, Flushing, Holding};
use crate::server::{Handler, Server, writes};

/// The limit counted for streams refused because too many heads wait for their bodies.
const WAITING_HEADS: &str = "waiting_heads";
/// How long a client whose frames end the connection has to read the GOAWAY.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Serves the connection to its end.
pub(crate) async fn serve<S, H>(server: Arc<Server<H>>, socket: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let activity = Activity::new(server.timers.least_rate);
    let max_frames = crate::server::http2::max_block_frames(&server.limits);
    let (socket, marks) = Blocks::new(Watched::new(socket, Arc::clone(&activity)), max_frames);
    let (io, writes) = writes::hold(socket);
    let phase = Phase::Greeting(crate::server::http2::builder(&server.limits).handshake(io));
    let serving = Serving {
        server: Arc::clone(&server),
        activity: Arc::clone(&activity),
        marks,
        peer,
        phase,
        closing: false,
        broken: false,
    };
    let serving = pin!(serving);
    let ended = drive(&server, &activity, Flushing::new(serving, writes, activity.backlog())).await;
    let error = ended.and_then(Result::err);
    if is_flood(&activity, error.as_ref()) {
        server.meter.tally.closed(Closed::Flood);
    }
    if let Some(error) = error {
        tracing::debug!(%error, "a client connection ended");
    }
}

/// Whether the client was sent `ENHANCE_YOUR_CALM`, by the gateway or by `h2`.
fn is_flood(activity: &Activity, error: Option<&Broken>) -> bool {
    let by_h2 = match error {
        Some(Broken::Protocol(error)) if error.is_library() => error.reason(),
        Some(Broken::Protocol(_) | Broken::Socket(_)) | None => None,
    };
    activity.broken().or(by_h2) == Some(Reason::ENHANCE_YOUR_CALM)
}

/// The client's socket, with its activity watched and its header blocks tracked.
type Client<S> = Blocks<Watched<S>>;

/// A connection that accepts streams.
struct Serving<S, H> {
    server: Arc<Server<H>>,
    activity: Arc<Activity>,
    marks: Arc<Marks>,
    peer: Peer,
    phase: Phase<S>,
    /// A graceful shutdown was requested.
    closing: bool,
    /// The connection ends at once, even with requests in progress.
    broken: bool,
}

enum Phase<S> {
    /// Settings are exchanged.
    Greeting(Handshake<Holding<S>, Bytes>),
    Open(Connection<Holding<S>, Bytes>),
}

impl<S, H> Serving<S, H>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    /// Shuts the connection down gracefully: open streams finish, and the client is told to open no more.
    fn close(&mut self) {
        self.closing = true;
        if let Phase::Open(connection) = &mut self.phase {
            connection.graceful_shutdown();
        }
    }
}

impl<S, H> Future for Serving<S, H>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Handler,
{
    type Output = Result<(), h2::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let connection = match &mut this.phase {
                Phase::Open(connection) => connection,
                Phase::Greeting(handshake) => {
                    let mut connection = ready!(Pin::new(handshake).poll(context))?;
                    if this.closing {
                        connection.graceful_shutdown();
                    }
                    this.phase = Phase::Open(connection);
                    continue;
                }
            };
            let polled = connection.poll_accept(context);
            let accepted = match polled {
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(accepted))) => Some(accepted),
                Poll::Pending => None,
            };
            if this.marks.malformed() > LOCAL_ERROR_RESETS {
                this.activity.end_for(Reason::ENHANCE_YOUR_CALM);
            }
            if let Some(reason) = this.activity.broken() {
                if !this.broken {
                    this.broken = true;
                    connection.abrupt_shutdown(reason);
                } else if accepted.is_none() {
                    return Poll::Pending;
                }
                // Requests that arrived before are refused with the rest.
                continue;
            }
            let Some((mut request, mut reply)) = accepted else { return Poll::Pending };
            match this.marks.take(reply.stream_id().as_u32()) {
                None => {}
                Some(Mark::Fragment) => {
                    request.extensions_mut().insert(HasFragment);
                }
                Some(Mark::Malformed) => {
                    reply.send_reset(Reason::PROTOCOL_ERROR);
                    continue;
                }
            }
            if has_padded_value(request.headers()) {
                this.marks.count();
                reply.send_reset(Reason::PROTOCOL_ERROR);
                continue;
            }
            let waiting = (!request.body().is_end_stream()).then(|| size_of(request.headers()));
            let Some(busy) = this.activity.begin(waiting) else {
                // The client may retry it once other requests are done: nothing was processed.
                this.server.meter.tally.limited(WAITING_HEADS);
                reply.send_reset(Reason::REFUSED_STREAM);
                continue;
            };
            let (server, marks) = (Arc::clone(&this.server), Arc::clone(&this.marks));
            let stream = stream::serve(server, this.peer, busy, marks, request, reply);
            // Boxed, because spawning moves a task several times.
            tokio::spawn(Box::pin(stream));
        }
    }
}

/// Polls the connection to its end, and closes it when a timer expires, when the drain begins, or when the drain is
/// over. `None` if it is dropped.
async fn drive<S, H>(
    server: &Server<H>,
    activity: &Activity,
    mut connection: Flushing<'_, Serving<Client<S>, H>, Client<S>>,
) -> Option<Result<(), Broken>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Handler,
{
    let drain = server.drain.token();
    tokio::select! {
        biased;
        ended = &mut connection => Some(ended),
        overdue = activity.overdue(&server.timers, &server.evictions) => match overdue {
            Overdue::Head | Overdue::Stalled => None,
            Overdue::SlowReader => {
                server.meter.tally.cut_off(SlowReader::BelowRate);
                None
            }
            Overdue::Broken => timeout(LAST_WORD, connection).await.ok(),
            Overdue::KeepAlive => {
                connection.connection().close();
                // Do not wait for a client that does not respond to the GOAWAY.
                timeout(server.timers.head, connection).await.ok()
            }
        },
        () = drain.cancelled() => {
            connection.connection().close();
            server.end.run_until_cancelled(connection).await
        }
    }
}
