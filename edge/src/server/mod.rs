//! The client side: listeners, workers, handshakes, HTTP/1.1 and HTTP/2. It knows no route: what it has read it gives to a
//! [`Handler`], for which it is compiled.

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

/// What answers requests. Each worker has one.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers a request. Dropping the future abandons it.
    fn handle(
        &self,
        peer: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<EdgeBody>> + Send;

    /// Answers what could not be read as a request.
    fn refuse(&self, peer: Peer, error: HeadError) -> Response<EdgeBody>;

    /// Called twice a second, as a sign that the worker is alive.
    fn beat(&self, worker: usize);

    /// Called now and then to close idle upstream connections that grew old.
    fn sweep(&self);
}

/// One worker's server: what its connections read, and the handler of their requests.
pub(crate) struct Server<H> {
    pub(crate) handler: H,
    pub(crate) timers: Timers,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    pub(crate) dates: Dates,
    /// Which idle connections make room for new ones.
    pub(crate) evictions: Arc<Evictions>,
    /// Connections, and what outlives the request that began it.
    pub(crate) tasks: TaskTracker,
    /// Begun when no new work is taken.
    pub(crate) drain: Drain,
    /// Cancelled when the drain is over; everything that still runs is then dropped.
    pub(crate) end: CancellationToken,
}
