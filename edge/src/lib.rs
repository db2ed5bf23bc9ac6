//! The gateway: the single public edge. One request's way, step by step (the types change at each, so a step cannot be
//! skipped or swapped):
//!
//! | step | file | takes, gives |
//! |---|---|---|
//! | accept | `wire/listen.rs`, `crew.rs` | socket, `Accepted`, given to the worker with the fewest connections |
//! | admit | `wire/admission.rs`, `proxy.rs`, `addresses.rs`, `evictions.rs` | `Accepted`, `Accepted` with its client's address, within that address's limit |
//! | handshake | `wire/tls.rs`, `wire/hello.rs`, `wire/sending.rs` | `Accepted`, `Secured` |
//! | serve | `wire/connection.rs`, `wire/h1/server.rs`, `wire/h2/server.rs`, `wire/h2/stream.rs` | `Secured`, many requests; HTTP/2's timers in `activity.rs`, its writes in `writes.rs` |
//! | run | `way/exchange.rs` | request, response: the whole way on one screen |
//! | guard | `way/guard.rs` | request, `Framed`, (preflight: `cors.rs`), `Guarded` |
//! | resolve | `way/route.rs`, table `routes.rs`, paths `path.rs` | `&Guarded`, `Route` |
//! | authenticate, ensure | `way/bearer.rs`, `rate.rs`, `provision.rs` | `&Guarded`, `Caller` |
//! | clear | `way/clearance.rs`, questions `ask.rs` | `Route`, `&Caller`, `Cleared` |
//! | build | `way/outbound.rs`, `forwarded.rs`, `elements.rs` | `Guarded`, `Cleared`, `Outbound` |
//! | send | `wire/upstream.rs`, `wire/place.rs`, `pool.rs`, `h1/call.rs`, `h2c/` | `Outbound`, the upstream's answer |
//! | answer | `way/inbound.rs`, `trace.rs`, `wire/body.rs`, `account.rs` | the answer, streamed, marked, counted; its account closed |
//!
//! Each core has a worker: a thread with a runtime, connections, token cache and upstream pools of its own. The first one
//! accepts for all. The thread that called [`serve`] watches and merges metrics.
//!
//! `aggregate/` answers the one route that the edge serves itself: all services' metrics in one exposition.
//!
//! Every "no" on this way is a `way/refusal.rs`. Snapshots come from `watch/`. The crate must not see axum, sqlx or
//! kit/service: what it adds to a request is measured in microseconds.

mod activation;
mod aggregate;
mod apart;
#[doc(hidden)]
pub mod bench;
mod config;
mod crew;
mod meter;
mod places;
mod reload;
mod tally;
mod tuning;
mod watch;
mod way;
mod wire;

use std::io;
use std::sync::Arc;

use bearer::{VerifiedTokens, Verifier};
use contract::Clock;
use telemetry::{AccessLog, Tracer};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use activation::{HandedOver, handed_over};
pub use config::{EdgeConfig, TLS_CERT, TLS_KEY, VARIABLES};
pub use tuning::start_tuned;
pub use watch::certificates::CertificateError;

use aggregate::Aggregate;
use crew::{Crew, Door, Entrance, Pulses};
use meter::Meter;
use places::Places;
use watch::catalog::CatalogWatch;
use watch::certificates::Certificates;
use way::account::{Account, Log};
use way::provision::{Provisioned, Subjects};
use way::rate::RateLimits;
use way::route::RouteTable;
use way::routes::Service;
use wire::Authority;
use wire::admission::Admission;
use wire::dates::Dates;
use wire::drain::Drain;
use wire::evictions::Evictions;
use wire::listen::prepared;
use wire::tls::Handshakes;
use wire::trust::upstream_tls;
use wire::upload::Held;
use wire::upstream::Upstreams;

/// The gateway document as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Remembered of verified tokens by each worker, 160 MB at most: more callers than one edge has at once.
const MOST_TOKENS: usize = 100_000;

/// How long the first connections wait for the catalog and the provider's keys: far more than a start needs where all is
/// well, and less than what probes and clients bear where it is not.
const LONGEST_WARM_UP: Duration = Duration::from_secs(2);

/// How long the end waits for the access log: its queue is written in a fraction of that.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Why the edge cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The TLS files cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A metric family was registered twice.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A worker's thread or runtime cannot be made, or a listener cannot be used.
    #[error("cannot start a worker or use a listener: {0}")]
    Worker(#[from] io::Error),
    /// `PLATFORM_GATEWAY_UPSTREAM_CA` cannot be used.
    #[error("PLATFORM_GATEWAY_UPSTREAM_CA cannot be used: {0}")]
    UpstreamAuthorities(String),
}

/// What every request's way reads. Each worker has one; what is an `Arc` in it is everybody's.
pub(crate) struct Edge {
    pub(crate) config: Arc<EdgeConfig>,
    pub(crate) routes: RouteTable,
    pub(crate) tokens: VerifiedTokens,
    pub(crate) provisioned: Provisioned,
    pub(crate) rates: Arc<RateLimits>,
    pub(crate) catalog: Arc<CatalogWatch>,
    pub(crate) places: Arc<Places>,
    pub(crate) upstreams: Upstreams,
    /// Of bodies whose requests have no place yet.
    pub(crate) held: Arc<Held>,
    pub(crate) meter: Meter,
    /// Which idle connections make room for new ones.
    pub(crate) evictions: Arc<Evictions>,
    /// Where lines of the access log go, if anybody wants them.
    pub(crate) access: Option<Log>,
    /// Makes the edge's spans, where traces are on.
    pub(crate) tracer: Option<Tracer>,
    pub(crate) dates: Dates,
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) pulses: Arc<Pulses>,
    /// Connections, and what outlives the request that began it.
    pub(crate) tasks: TaskTracker,
    /// Where work runs that must not hold up requests.
    pub(crate) watch: Handle,
    /// Where work runs that may be much.
    pub(crate) apart: Handle,
    /// Cancelled when the end was asked for; nothing is ready from then on.
    pub(crate) stop: CancellationToken,
    /// Begun when no new work is taken.
    pub(crate) drain: Drain,
    /// Cancelled when the drain is over: whatever still runs is dropped.
    pub(crate) end: CancellationToken,
}

impl Edge {
    pub(crate) fn authority(&self, service: Service) -> &Authority {
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

/// Whether anybody wants the access log. The filter stays as it was at the start.
fn is_logged() -> bool {
    meter::OBSERVED && tracing::enabled!(target: "access", tracing::Level::INFO)
}

/// What the workers have in common.
struct Common {
    config: Arc<EdgeConfig>,
    verifier: Verifier,
    subjects: Arc<Subjects>,
    rates: Arc<RateLimits>,
    catalog: Arc<CatalogWatch>,
    places: Arc<Places>,
    meter: Meter,
    access: AccessLog<Account>,
    tracer: Option<Tracer>,
    aggregate: Arc<Aggregate>,
    apart: Handle,
    certificates: Arc<Certificates>,
    pulses: Arc<Pulses>,
    upstream_tls: Arc<rustls::ClientConfig>,
    stop: CancellationToken,
    drain: Drain,
    evictions: Arc<Evictions>,
    end: CancellationToken,
}

impl Common {
    /// With it, what resolves when the access log is written to its end.
    fn start(
        config: EdgeConfig,
        stop: CancellationToken,
    ) -> Result<(Self, oneshot::Receiver<()>), EdgeError> {
        let meter = Meter::new(&config.commit)?;
        let (tell, written) = oneshot::channel();
        let tally = meter.tally.clone();
        let dropped = tally.log_dropped.clone();
        let access = AccessLog::start(config.json_log, dropped, move || {
            // Nobody listens any more when the end was not waited for.
            let _told = tell.send(());
        })?;
        let end = CancellationToken::new();
        let config = Arc::new(config);
        let certificates = Certificates::read(config.tls.clone())?;
        let drain = Drain::default();
        let common = Self {
            access,
            tracer: meter.tracer()?,
            verifier: Verifier::start(config.bearer.clone(), Clock::system(), end.clone()),
            subjects: Arc::default(),
            rates: Arc::new(RateLimits::new(config.rates)),
            catalog: Arc::new(CatalogWatch::new()),
            // The watch has connections of its own, too.
            places: Arc::new(Places::new(Arc::clone(&config), config.workers + 1)),
            meter,
            aggregate: Arc::default(),
            apart: apart::start(end.clone())?,
            certificates: Arc::new(certificates),
            pulses: Arc::new(Pulses::new(config.workers)),
            upstream_tls: upstream_tls(config.upstream_ca.as_deref())
                .map_err(EdgeError::UpstreamAuthorities)?,
            evictions: Arc::new(Evictions::new(drain.clone(), tally)),
            stop,
            drain,
            end,
            config,
        };
        Ok((common, written))
    }

    /// What every connection passes before it is served.
    fn admission(&self) -> Admission {
        let (config, tally) = (&self.config, &self.meter.tally);
        let handshakes = Handshakes::new(
            Arc::clone(&self.certificates),
            Arc::clone(&self.evictions),
            &self.drain,
            &config.limits,
            config.timers,
            tally.clone(),
        );
        Admission::new(Arc::clone(config), handshakes, Arc::clone(&self.evictions), tally.clone())
    }

    /// The edge as one worker has it.
    fn edge(&self, worker: usize) -> Arc<Edge> {
        Arc::new(Edge {
            config: Arc::clone(&self.config),
            routes: RouteTable::new(),
            tokens: VerifiedTokens::new(self.verifier.clone(), MOST_TOKENS),
            provisioned: Provisioned::of(Arc::clone(&self.subjects)),
            rates: Arc::clone(&self.rates),
            catalog: Arc::clone(&self.catalog),
            places: Arc::clone(&self.places),
            upstreams: Upstreams::new(worker, self.config.budgets, Arc::clone(&self.upstream_tls)),
            held: Arc::default(),
            meter: self.meter.for_worker(),
            access: is_logged().then(|| Arc::new(self.access.lines())),
            tracer: self.tracer.clone(),
            dates: Dates::default(),
            aggregate: Arc::clone(&self.aggregate),
            certificates: Arc::clone(&self.certificates),
            pulses: Arc::clone(&self.pulses),
            tasks: TaskTracker::new(),
            watch: Handle::current(),
            apart: self.apart.clone(),
            stop: self.stop.clone(),
            drain: self.drain.clone(),
            evictions: Arc::clone(&self.evictions),
            end: self.end.clone(),
        })
    }
}

/// Serves both listeners until `stop`, then drains: for `PLATFORM_DRAIN_MIN` only `/readyz` says so; then no new
/// connections, a goodbye on the open ones, and requests in flight finish within `PLATFORM_DRAIN_TIMEOUT`. A SIGHUP
/// re-reads what may change.
///
/// # Errors
/// TLS files or listeners that cannot be used, threads that cannot be made.
pub async fn serve(
    mut config: EdgeConfig,
    tls: TcpListener,
    plain: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), EdgeError> {
    for listener in std::iter::once(&tls).chain(&plain) {
        config.hosts.listen(listener.local_addr()?.port());
    }
    let (common, written) = Common::start(config, stop)?;
    // Whoever drops this future ends the workers, too.
    let _ended = common.end.clone().drop_guard();
    let admission = Arc::new(common.admission());
    let edges = (0..common.config.workers).map(|worker| common.edge(worker)).collect();
    let doors = doors(tls, plain, common.config.limits.connections, &common.evictions)?;
    let watcher = common.edge(common.config.workers);
    let watchers = watch(&watcher);
    warm(&watcher).await;
    let crew = Crew::start(edges, &admission, doors)?;
    begin_drain(&watcher).await;
    drain(&watcher, crew).await;
    drop((watchers, watcher, common));
    // The last lines are written before the process may end; but whoever reads them may have stopped.
    if timeout(LAST_LINES, written).await.is_err() {
        tracing::warn!("the last lines of the access log could not be written");
    }
    Ok(())
}

/// The background tasks; they end when the set is dropped.
fn watch(edge: &Arc<Edge>) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    let (follower, certificates, hearer) =
        (Arc::clone(edge), Arc::clone(&edge.certificates), Arc::clone(edge));
    let tally = edge.meter.tally.clone();
    watchers.spawn(async move {
        let forget = || follower.provisioned.forget();
        follower.catalog.follow(&follower.upstreams, &follower.places, forget).await;
    });
    watchers.spawn(certificates.follow(move |reload| tally.reloaded(reload)));
    watchers.spawn(async move { reload::listen(&hearer).await });
    watchers
}

/// Waits for the catalog and the provider's keys, so that a restart does not refuse those who were let in before it; they
/// wait in the listeners meanwhile. An edge that cannot have them in time says so to whoever asks.
async fn warm(edge: &Edge) {
    let known = async { tokio::join!(edge.catalog.arrived(), edge.tokens.verifier().keys_arrived()) };
    let waited = edge.stop.run_until_cancelled(timeout(LONGEST_WARM_UP, known)).await;
    if waited.is_some_and(|known| known.is_err()) {
        tracing::warn!("begins without the catalog or the provider's keys");
    }
}

/// Both listeners; together they take so many connections.
fn doors(
    tls: TcpListener,
    plain: Option<TcpListener>,
    connections: usize,
    evictions: &Arc<Evictions>,
) -> io::Result<Vec<Door>> {
    let places = Arc::new(Semaphore::new(connections));
    let both = [Some((tls, Entrance::Tls)), plain.map(|plain| (plain, Entrance::Plain))];
    let doors = both.into_iter().flatten().map(|(socket, entrance)| {
        let (places, evictions) = (Arc::clone(&places), Arc::clone(evictions));
        Ok(Door { socket: prepared(socket)?, entrance, places, evictions })
    });
    doors.collect()
}

async fn begin_drain(edge: &Edge) {
    edge.stop.cancelled().await;
    tokio::time::sleep(edge.config.drain_min).await;
    edge.drain.begin();
}

async fn drain(edge: &Edge, crew: Crew) {
    let mut finished = std::pin::pin!(crew.finish());
    let in_time = timeout(edge.config.drain_timeout, finished.as_mut()).await.is_ok();
    edge.end.cancel();
    edge.tasks.close();
    if !in_time {
        tracing::warn!("the drain ran out of time; open connections are dropped");
        finished.await;
    }
}
