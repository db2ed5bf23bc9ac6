//! Serves one client connection, by the protocol ALPN settled: many requests in, each through the way, until the client
//! leaves, a timer runs out, or the drain asks for the end. HTTP/1.1 is `h1/server.rs`; here is HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::activity::{Activity, Busy, Overdue, Protocol, Watched};
use super::body::EdgeBody;
use super::h1::server::Connection;
use super::h2;
use super::incoming::RequestBody;
use super::socket::ClientSocket;
use super::tls::{Scheme, Secured};
use super::writes::{self, Flushing};
use crate::Edge;
use crate::way::exchange;

/// The client's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) scheme: Scheme,
}

/// Serves the connection to its end. What is polled holds what its protocol needs, and no copy of what led to it: there are
/// as many as idle clients.
pub(crate) fn serve<S>(edge: Arc<Edge>, secured: Secured<S>) -> BoxFuture<'static, ()>
where
    S: ClientSocket,
{
    let Secured { stream, peer, protocol, scheme, place } = secured;
    let peer = Peer { address: peer, scheme };
    match protocol {
        Protocol::Http1 => {
            let connection = Connection::new(edge, stream, peer);
            Box::pin(async move {
                connection.serve().await;
                drop(place);
            })
        }
        Protocol::Http2 => Box::pin(async move {
            serve_http2(edge, stream, peer).await;
            drop(place);
        }),
    }
}

async fn serve_http2<S>(edge: Arc<Edge>, stream: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new(Protocol::Http2);
    let (io, writes) = writes::hold(Watched::new(stream, Arc::clone(&activity)));
    let service = {
        let (edge, activity) = (Arc::clone(&edge), Arc::clone(&activity));
        service_fn(move |request| one(Arc::clone(&edge), activity.begin(), peer, request))
    };
    let connection = pin!(
        h2::builder(&edge.config.limits, edge.config.timers.stream_idle)
            .serve_connection(TokioIo::new(io), service)
    );
    let connection = Flushing::new(connection, writes);
    drive(&edge, &activity, connection, http2::Connection::graceful_shutdown).await;
}

async fn one(
    edge: Arc<Edge>,
    busy: Busy,
    peer: Peer,
    mut request: Request<Incoming>,
) -> Result<Response<EdgeBody>, Infallible> {
    let stream = h2::asks_for_a_stream(&request).then(|| hyper::upgrade::on(&mut request));
    let request = request.map(RequestBody::http2);
    let mut response = Box::pin(exchange::run(&edge, peer, request)).await;
    if let Some((tunnel, stream)) = response.body_mut().take_tunnel().zip(stream) {
        // The stream is the client's end from now on (RFC 8441).
        *response.status_mut() = StatusCode::OK;
        for name in [header::UPGRADE, header::CONNECTION, header::SEC_WEBSOCKET_ACCEPT] {
            response.headers_mut().remove(name);
        }
        h2::carry(&edge, tunnel, stream, busy);
        return Ok(response);
    }
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
    let drain = edge.drain.token();
    let ended = tokio::select! {
        biased;
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
        () = drain.cancelled() => {
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
