//! [`Worker`]: what the steps of a request read. Each worker has one; what is an `Arc` in it is shared by all.

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
    /// Memory for bodies whose requests have no permit of an upstream yet.
    pub(crate) held: Arc<Held>,
    pub(crate) meter: Meter,
    /// Where lines of the access log go, if it is on.
    pub(crate) access: Option<Log>,
    /// Makes the gateway's spans, where traces are on.
    pub(crate) tracer: Option<Tracer>,
    pub(crate) aggregator: Arc<Aggregator>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    /// Connections, and what outlives the request that began it.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the end was asked for; nothing is ready from then on.
    pub(crate) stop: CancellationToken,
}
