//! The client side: listeners, workers, handshakes, HTTP/1.1 and HTTP/2. It knows no routes: it is generic over a
//! [`Handler`], which answers the requests it has read.

pub(crate) mod activation;
pub(crate) mod activity;
pub(crate) mod addresses;
pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod connection;
pub(crate) mod evictions;
pub(crate) mod handshake;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod listen;
pub(crate) mod proxy;
pub(crate) mod workers;
pub(crate) mod writes;

use std::sync::Arc;

use http::{Request, Response};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::request::RequestBody;
use crate::config::{Limits, Timers};
use crate::control::drain::Drain;
use crate::http::dates::Dates;
use crate::http::h1::HeadError;
use crate::http::peer::Peer;
use crate::metrics::meter::Meter;
use crate::response::body::EdgeBody;
use crate::server::evictions::Evictions;

/// The handler that answers requests. Each worker has one.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers a request. Dropping the future abandons it.
    fn handle(
        &self,
        peer: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<EdgeBody>> + Send;

    /// Answers input that could not be read as a request.
    fn refuse(&self, peer: Peer, error: HeadError) -> Response<EdgeBody>;

    /// Called twice a second, as a heartbeat of the worker.
    fn beat(&self, worker: usize);

    /// Called periodically to close stale idle upstream connections.
    fn sweep(&self);
}

/// One worker's server: the state that its connections read, and the handler of their requests.
pub(crate) struct Server<H> {
    pub(crate) handler: H,
    pub(crate) timers: Timers,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    pub(crate) dates: Dates,
    /// Which connections are closed to make room for new ones.
    pub(crate) evictions: Arc<Evictions>,
    /// Connections, and tasks that outlive the request that started them.
    pub(crate) tasks: TaskTracker,
    /// Started when no new work is accepted.
    pub(crate) drain: Drain,
    /// Cancelled when the drain is over; everything still running is then dropped.
    pub(crate) end: CancellationToken,
}
