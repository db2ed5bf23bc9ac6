//! Serves one client connection by the protocol that ALPN settled.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::activity::Protocol;
use super::h1::server::Connection;
use super::h2;
use super::socket::ClientSocket;
use super::tls::{Scheme, Secured};
use crate::Edge;

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
    let Secured { stream, peer, protocol, scheme, held } = secured;
    let peer = Peer { address: peer, scheme };
    match protocol {
        Protocol::Http1 => {
            let mut connection = Connection::new(edge, stream, peer);
            Box::pin(async move {
                connection.serve().await;
                drop(held);
            })
        }
        Protocol::Http2 => Box::pin(async move {
            h2::server::serve(edge, stream, peer).await;
            drop(held);
        }),
    }
}
