//! [`Worker`]: the state that the steps of a request read. Each worker has one; its `Arc`s are shared by all workers.

use std::sync::Arc;

use bearer::VerifiedTokens;
use telemetry::Tracer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregate::Aggregator;
use crate::body::upload::Held;
use crate::config::EdgeConfig;
use crate::control::catalog::CatalogWatch;
use crate::control::heartbeats::Heartbeats;
use crate::metrics::access::Log;
use crate::metrics::meter::Meter;
use crate::pipeline::provision::Provisioned;
use crate::pipeline::rate_limit::RateLimits;
use crate::pipeline::route::RouteTable;
use crate::upstream::client::UpstreamClient;
use crate::upstream::registry::Upstreams;

/// The state of one worker's pipeline.
pub(crate) struct Worker {
    pub(crate) config: Arc<EdgeConfig>,
    pub(crate) routes: RouteTable,
    pub(crate) tokens: VerifiedTokens,
    pub(crate) provisioned: Provisioned,
    pub(crate) rates: Arc<RateLimits>,
    pub(crate) catalog: Arc<CatalogWatch>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) client: UpstreamClient,
    /// Memory for bodies of requests that have no upstream permit yet.
    pub(crate) held: Arc<Held>,
    pub(crate) meter: Meter,
    /// The access log, if it is on.
    pub(crate) access: Option<Log>,
    /// Creates the gateway's spans, if tracing is on.
    pub(crate) tracer: Option<Tracer>,
    pub(crate) aggregator: Arc<Aggregator>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    /// Connections, and tasks that outlive the request that started them.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when shutdown is requested; the gateway is not ready from then on.
    pub(crate) stop: CancellationToken,
}
