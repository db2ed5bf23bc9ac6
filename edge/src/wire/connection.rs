//! Serves one client connection, by the protocol ALPN settled: many requests in, each through the way, until the client
//! leaves, a timer runs out, or the drain asks for the end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::activity::{Activity, Busy, Overdue, Protocol, Watched};
use super::body::EdgeBody;
use super::tls::{Scheme, Secured};
use super::writes::{self, Flushing};
use super::{h1, h2};
use crate::Edge;
use crate::way::exchange;

/// The client's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) scheme: Scheme,
}

/// Serves the connection to its end.
pub(crate) async fn serve<S>(edge: Arc<Edge>, secured: Secured<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Secured { stream, peer, protocol, scheme, place } = secured;
    let activity = Activity::new(protocol);
    let (io, writes) = writes::hold(Watched::new(stream, Arc::clone(&activity)));
    let io = TokioIo::new(io);
    let peer = Peer { address: peer, scheme };
    let limits = edge.config.limits;
    let service = {
        let (edge, activity) = (Arc::clone(&edge), Arc::clone(&activity));
        service_fn(move |request| one(Arc::clone(&edge), activity.begin(), peer, request))
    };
    match protocol {
        Protocol::Http1 => {
            let connection = pin!(h1::builder(&limits).serve_connection(io, service));
            let connection = Flushing::new(connection, writes);
            drive(&edge, &activity, connection, http1::Connection::graceful_shutdown).await;
        }
        Protocol::Http2 => {
            let connection =
                pin!(h2::builder(&limits, edge.config.timers.stream_idle).serve_connection(io, service));
            let connection = Flushing::new(connection, writes);
            drive(&edge, &activity, connection, http2::Connection::graceful_shutdown).await;
        }
    }
    drop(place);
}

async fn one(
    edge: Arc<Edge>,
    busy: Busy,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Response<EdgeBody>, Infallible> {
    let mut response = Box::pin(exchange::run(&edge, peer, request)).await;
    response.body_mut().keep_busy(busy);
    Ok(response)
}

/// Polls the connection to its end, and closes it when a timer runs out, when the drain begins, or when it is over.
async fn drive<C, S>(
    edge: &Edge,
    activity: &Activity,
    mut connection: Flushing<'_, C, S>,
    close: impl Fn(Pin<&mut C>),
) where
    C: Future<Output = hyper::Result<()>>,
    S: AsyncWrite + Unpin,
{
    let ended = tokio::select! {
        ended = &mut connection => ended,
        overdue = activity.overdue(&edge.config.timers) => match overdue {
            Overdue::Head | Overdue::Stalled => return,
            Overdue::KeepAlive | Overdue::Flood => {
                close(connection.connection());
                // A client that does not answer the goodbye is not waited for.
                match timeout(edge.config.timers.head, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        },
        () = edge.drain.cancelled() => {
            close(connection.connection());
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
