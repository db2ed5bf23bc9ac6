//! Serves one client connection with the protocol that ALPN negotiated.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::http::peer::Peer;
use crate::server::activity::Protocol;
use crate::server::handshake::Secured;
use crate::server::http1::Connection;
use crate::server::{Handler, Server, http2};
use crate::upstream::socket::ClientSocket;

/// Serves the connection to its end. The future holds only what its protocol needs, because there is one for every idle
/// client.
pub(crate) fn serve<S, H>(server: Arc<Server<H>>, secured: Secured<S>) -> BoxFuture<'static, ()>
where
    S: ClientSocket,
    H: Handler,
{
    let Secured { stream, peer, protocol, scheme, held } = secured;
    let peer = Peer { address: peer, scheme };
    match protocol {
        Protocol::Http1 => {
            let mut connection = Connection::new(server, stream, peer);
            Box::pin(async move {
                connection.serve().await;
                drop(held);
            })
        }
        Protocol::Http2 => Box::pin(async move {
            http2::serve::serve(server, stream, peer).await;
            drop(held);
        }),
    }
}
