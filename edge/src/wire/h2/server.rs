//! One client's HTTP/2 connection: streams in, each served as a task of its own, until the client leaves, a timer runs
//! out, something is malformed, or the drain asks for the end.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{Connection, Handshake};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::fragments::{Fragments, Marks};
use super::{HasFragment, stream};
use crate::Edge;
use crate::wire::activity::{Activity, Overdue, Protocol, Watched};
use crate::wire::connection::Peer;
use crate::wire::writes::{self, Flushing, Holding};

/// Serves the connection to its end.
pub(crate) async fn serve<S>(edge: Arc<Edge>, socket: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new(Protocol::Http2);
    let (socket, marks) = Fragments::new(socket);
    let (io, writes) = writes::hold(Watched::new(socket, Arc::clone(&activity)));
    let phase = Phase::Greeting(super::builder(&edge.config.limits).handshake(io));
    let (shared, activity_shared) = (Arc::clone(&edge), Arc::clone(&activity));
    let serving = Serving { edge: shared, activity: activity_shared, marks, peer, phase, closing: false };
    let serving = pin!(serving);
    drive(&edge, &activity, Flushing::new(serving, writes)).await;
}

/// A connection that takes streams in.
struct Serving<S> {
    edge: Arc<Edge>,
    activity: Arc<Activity>,
    marks: Arc<Marks>,
    peer: Peer,
    phase: Phase<S>,
    /// It was asked to come to its end.
    closing: bool,
}

enum Phase<S> {
    /// Settings are exchanged.
    Greeting(Handshake<Holding<S>, Bytes>),
    Open(Connection<Holding<S>, Bytes>),
}

impl<S> Serving<S>
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

impl<S> Future for Serving<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
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
            let Some(accepted) = ready!(connection.poll_accept(context)) else { return Poll::Ready(Ok(())) };
            let (mut request, reply) = accepted?;
            if this.marks.take(reply.stream_id().as_u32()) {
                request.extensions_mut().insert(HasFragment);
            }
            let busy = this.activity.begin();
            let served = stream::serve(Arc::clone(&this.edge), this.peer, busy, request, reply);
            // On its way into the runtime a task is moved several times.
            tokio::spawn(Box::pin(served));
        }
    }
}

/// Polls the connection to its end, and closes it when a timer runs out, when the drain begins, or when it is over.
async fn drive<S>(
    edge: &Edge,
    activity: &Activity,
    mut connection: Flushing<'_, Serving<Watched<S>>, Watched<S>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let drain = edge.drain.token();
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        overdue = activity.overdue(&edge.config.timers) => match overdue {
            Overdue::Head | Overdue::Stalled => return,
            Overdue::KeepAlive | Overdue::Flood => {
                connection.connection().close();
                // A client that does not answer the goodbye is not waited for.
                match timeout(edge.config.timers.head, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        },
        () = drain.cancelled() => {
            connection.connection().close();
            tokio::select! {
                ended = connection => ended,
                () = edge.end.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a client connection ended");
    }
}
