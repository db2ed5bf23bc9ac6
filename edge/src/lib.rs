//! The gateway: the single public edge. One request's way, step by step (the types change at each, so a step cannot be
//! skipped or swapped):
//!
//! | step | file | takes, gives |
//! |---|---|---|
//! | accept | `wire/listen.rs`, `proxy.rs` | socket, `Accepted` |
//! | handshake | `wire/tls.rs` | `Accepted`, `Secured` |
//! | serve | `wire/connection.rs`, `h1.rs`, `h2.rs` | `Secured`, many requests; the edge's timers in `activity.rs`, its writes in `writes.rs` |
//! | run | `way/exchange.rs` | request, response: the whole way on one screen |
//! | guard | `way/guard.rs` | request, `Framed`, (preflight: `cors.rs`), `Guarded` |
//! | resolve | `way/route.rs`, table `routes.rs`, paths `path.rs` | `&Guarded`, `Route` |
//! | authenticate, ensure | `way/bearer.rs`, `rate.rs`, `provision.rs` | `&Guarded`, `Caller` |
//! | clear | `way/clearance.rs`, questions `ask.rs` | `Route`, `&Caller`, `Cleared` |
//! | build | `way/outbound.rs`, `forwarded.rs` | `Guarded`, `Cleared`, `Outbound` |
//! | send | `wire/upstream.rs`, `pool.rs`, `upload.rs` | `Outbound`, the upstream's answer |
//! | answer | `way/inbound.rs`, `trace.rs`, `wire/body.rs` | the answer, streamed, marked, counted, logged |
//!
//! `aggregate/` answers the one route that the edge serves itself: all services' metrics in one exposition.
//!
//! Every "no" on this way is a `way/refusal.rs`. Snapshots come from `watch/`. The crate must not see axum, sqlx or
//! kit/service: what it adds to a request is measured in microseconds.

mod activation;
mod aggregate;
#[doc(hidden)]
pub mod bench;
mod config;
mod meter;
mod reload;
mod tally;
mod watch;
mod way;
mod wire;

use std::io;
use std::sync::Arc;

use bearer::{VerifiedTokens, Verifier};
use contract::Clock;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use activation::{HandedOver, handed_over};
pub use config::{EdgeConfig, TLS_CERT, TLS_KEY, VARIABLES};
pub use watch::certificates::CertificateError;

use aggregate::Aggregate;
use meter::{Handshake, Meter};
use watch::catalog::CatalogWatch;
use watch::certificates::Certificates;
use way::provision::Provisioned;
use way::rate::RateLimits;
use way::route::RouteTable;
use way::routes::Service;
use wire::Authority;
use wire::listen::{Accepted, Listener};
use wire::proxy;
use wire::tls::{Handshakes, plain};
use wire::upstream::Upstreams;

/// The gateway document as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Why the edge cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The TLS files cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A metric family was registered twice.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// What every request's way reads.
pub(crate) struct Edge {
    pub(crate) config: EdgeConfig,
    pub(crate) routes: RouteTable,
    pub(crate) tokens: VerifiedTokens,
    pub(crate) provisioned: Provisioned,
    pub(crate) rates: RateLimits,
    pub(crate) catalog: CatalogWatch,
    pub(crate) upstreams: Upstreams,
    pub(crate) meter: Meter,
    pub(crate) aggregate: Aggregate,
    pub(crate) certificates: Arc<Certificates>,
    /// Tasks that outlive the request that began them.
    pub(crate) tasks: TaskTracker,
    /// Cancelled at a stop: `/readyz` says so from here on.
    pub(crate) stop: CancellationToken,
    /// Cancelled when no new work is taken: `PLATFORM_DRAIN_MIN` after the stop.
    pub(crate) drain: CancellationToken,
    /// Cancelled when the drain is over: whatever still runs is dropped.
    pub(crate) end: CancellationToken,
}

impl Edge {
    fn start(
        config: EdgeConfig,
        certificates: Arc<Certificates>,
        stop: CancellationToken,
    ) -> Result<Self, EdgeError> {
        let end = CancellationToken::new();
        let verifier = Verifier::start(config.bearer.clone(), Clock::system(), end.clone());
        Ok(Self {
            routes: RouteTable::new(),
            tokens: VerifiedTokens::new(verifier),
            provisioned: Provisioned::default(),
            rates: RateLimits::new(config.rates),
            catalog: CatalogWatch::new(),
            upstreams: Upstreams::new(config.budgets),
            meter: Meter::new(&config.commit)?,
            aggregate: Aggregate::default(),
            certificates,
            tasks: TaskTracker::new(),
            stop,
            drain: CancellationToken::new(),
            end,
            config,
        })
    }

    pub(crate) const fn authority(&self, service: Service) -> &Authority {
        let addresses = &self.config.addresses;
        match service {
            Service::Authz => &addresses.authz,
            Service::Org => &addresses.org,
            Service::Registry => &addresses.registry,
            Service::Identity => &addresses.identity,
            Service::Idp => &addresses.idp,
        }
    }
}

/// Serves both listeners until `stop`, then drains: after `PLATFORM_DRAIN_MIN` no new connections, a goodbye on the open
/// ones, and requests in flight finish within `PLATFORM_DRAIN_TIMEOUT`. A SIGHUP re-reads what may change.
///
/// # Errors
/// TLS files that cannot be used.
pub async fn serve(
    config: EdgeConfig,
    tls: TcpListener,
    plain: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), EdgeError> {
    let certificates = Arc::new(Certificates::read(config.tls.clone())?);
    let edge = Arc::new(Edge::start(config, Arc::clone(&certificates), stop)?);
    let watchers = watch(&edge, &certificates);
    let places = Arc::new(Semaphore::new(edge.config.limits.connections));
    let tally = edge.meter.tally.clone();
    let handshakes =
        Arc::new(Handshakes::new(certificates, &edge.config.limits, edge.config.timers, tally.clone()));
    let connections = TaskTracker::new();
    tokio::join!(
        accept_tls(&edge, Listener::new(tls, Arc::clone(&places), tally.clone()), &handshakes, &connections),
        accept_plain(&edge, plain.map(|socket| Listener::new(socket, places, tally)), &connections),
    );
    drain(&edge, &connections).await;
    drop(watchers);
    Ok(())
}

/// The background tasks; they end when the set is dropped.
fn watch(edge: &Arc<Edge>, certificates: &Arc<Certificates>) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    let (follower, sweeper, certificates) = (Arc::clone(edge), Arc::clone(edge), Arc::clone(certificates));
    watchers.spawn(async move {
        follower.catalog.follow(&follower.upstreams, &follower.config.addresses.registry).await;
    });
    watchers.spawn(async move { sweeper.upstreams.sweep_for_ever().await });
    let (meter, announcer, hearer) = (edge.meter.clone(), Arc::clone(edge), Arc::clone(edge));
    watchers.spawn(certificates.follow(move |reload| meter.tally.reloaded(reload)));
    watchers.spawn(async move { reload::listen(&hearer).await });
    watchers.spawn(async move { announce(&announcer).await });
    watchers
}

/// Turns a stop into the drain, once balancers have had their time to see it.
async fn announce(edge: &Edge) {
    edge.stop.cancelled().await;
    tokio::time::sleep(edge.config.drain_min).await;
    edge.drain.cancel();
}

async fn accept_tls(
    edge: &Arc<Edge>,
    listener: Listener,
    handshakes: &Arc<Handshakes>,
    connections: &TaskTracker,
) {
    while let Some(Some(accepted)) = edge.drain.run_until_cancelled(listener.accept()).await {
        let (edge, handshakes) = (Arc::clone(edge), Arc::clone(handshakes));
        connections.spawn(async move {
            let _open = edge.meter.connected("tls");
            let shaken = async { handshakes.handshake(introduced(&edge, accepted).await?).await };
            match edge.end.run_until_cancelled(shaken).await {
                Some(Ok(secured)) => {
                    edge.meter.shook_hands(Handshake::Done);
                    wire::connection::serve(Arc::clone(&edge), secured).await;
                }
                Some(Err(error)) => {
                    edge.meter.shook_hands(Handshake::of(&error));
                    tracing::debug!(%error, "a TLS handshake failed");
                }
                None => {}
            }
        });
    }
}

async fn accept_plain(edge: &Arc<Edge>, listener: Option<Listener>, connections: &TaskTracker) {
    let Some(listener) = listener else { return };
    while let Some(Some(accepted)) = edge.drain.run_until_cancelled(listener.accept()).await {
        let edge = Arc::clone(edge);
        connections.spawn(async move {
            let _open = edge.meter.connected("plain");
            match edge.end.run_until_cancelled(introduced(&edge, accepted)).await {
                Some(Ok(accepted)) => wire::connection::serve(Arc::clone(&edge), plain(accepted)).await,
                Some(Err(error)) => tracing::debug!(%error, "a balancer did not introduce its client"),
                None => {}
            }
        });
    }
}

/// The connection with its client's address: the peer's own, or what a listed balancer says in front of it.
async fn introduced(edge: &Edge, mut accepted: Accepted) -> io::Result<Accepted> {
    if edge.config.proxies.contain(accepted.peer.ip()) {
        let said = timeout(edge.config.timers.head, proxy::client(&mut accepted.stream, accepted.peer)).await;
        let said = said.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        edge.meter.tally.proxied(said.is_ok());
        accepted.peer = said?;
    }
    Ok(accepted)
}

async fn drain(edge: &Edge, connections: &TaskTracker) {
    connections.close();
    if timeout(edge.config.drain_timeout, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "the drain ran out of time; open connections are dropped");
    }
    edge.end.cancel();
    edge.tasks.close();
    connections.wait().await;
}
