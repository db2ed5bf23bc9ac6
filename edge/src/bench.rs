//! What the measurements in `benches/` need of the edge's insides. Not part of the crate's interface, and not on the way
//! of any request.

use std::net::SocketAddr;

use contract::CorrelationId;
use http::{HeaderMap, HeaderValue, Method};

use crate::way::forwarded::Sender;
use crate::way::outbound;
use crate::way::route::RouteTable;
use crate::wire::connection::Peer;
use crate::wire::headers::Marks;
use crate::wire::tls::Scheme;

/// The route table.
#[derive(Debug)]
pub struct Routes(RouteTable);

impl Routes {
    /// The table of the gateway document.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a table is built on purpose")]
    pub fn new() -> Self {
        Self(RouteTable::new())
    }

    /// The label of the route that a request means.
    #[must_use]
    pub fn resolve(&self, method: &Method, path: &str) -> Option<&'static str> {
        self.0.find(method, path).ok().map(|route| route.label)
    }
}

/// A request's headers as the upstream gets them.
#[must_use]
pub fn rewrite(
    headers: HeaderMap,
    host: &str,
    correlation: &CorrelationId,
    client: SocketAddr,
) -> Option<HeaderMap> {
    let peer = Peer { address: client, scheme: Scheme::Https };
    let host = HeaderValue::from_str(host).ok()?;
    let (marks, from) = (Marks::of(&headers), Sender { peer, behind_trusted_proxy: false });
    outbound::rewrite(headers, marks, host, correlation, from).ok()
}
