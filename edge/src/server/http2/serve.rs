//! One client's HTTP/2 connection: streams in, each served as a task of its own, until the client leaves, a timer runs
//! out, something is malformed, or the drain asks for the end.

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

/// What counts the streams that are refused because too many heads wait for their bodies.
const WAITING_HEADS: &str = "waiting_heads";
/// How long a client whose frames end the connection has to take the GOAWAY that says so.
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

/// Whether the client was told to calm down, by the edge or by `h2`.
fn is_flood(activity: &Activity, error: Option<&Broken>) -> bool {
    let by_h2 = match error {
        Some(Broken::Protocol(error)) if error.is_library() => error.reason(),
        Some(Broken::Protocol(_) | Broken::Socket(_)) | None => None,
    };
    activity.broken().or(by_h2) == Some(Reason::ENHANCE_YOUR_CALM)
}

/// The client's socket, whose activity is watched and whose header blocks are followed.
type Client<S> = Blocks<Watched<S>>;

/// A connection that takes streams in.
struct Serving<S, H> {
    server: Arc<Server<H>>,
    activity: Arc<Activity>,
    marks: Arc<Marks>,
    peer: Peer,
    phase: Phase<S>,
    /// It was asked to come to its end.
    closing: bool,
    /// It ends at once, whatever is under way on it.
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
    /// Ends it politely: streams that have begun come to their end, and the client is told to begin no more.
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
                // Requests that came before are refused with the rest.
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
                // The client may send it once others are done: nothing was done for it.
                this.server.meter.tally.limited(WAITING_HEADS);
                reply.send_reset(Reason::REFUSED_STREAM);
                continue;
            };
            let (server, marks) = (Arc::clone(&this.server), Arc::clone(&this.marks));
            let stream = stream::serve(server, this.peer, busy, marks, request, reply);
            // On its way into the runtime a task is moved several times.
            tokio::spawn(Box::pin(stream));
        }
    }
}

/// Polls the connection to its end, and closes it when a timer runs out, when the drain begins, or when it is over. `None`
/// when it is dropped.
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
                // A client that does not answer the goodbye is not waited for.
                timeout(server.timers.head, connection).await.ok()
            }
        },
        () = drain.cancelled() => {
            connection.connection().close();
            server.end.run_until_cancelled(connection).await
        }
    }
}
