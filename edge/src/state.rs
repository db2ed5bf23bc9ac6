//! [`Shared`]: state common to all workers, created once at startup, and the state that each worker derives from it.

use std::sync::{Arc, Mutex};

use bearer::{VerifiedTokens, Verifier};
use contract::Clock;
use http::{Request, Response};
use telemetry::{AccessLog, Tracer};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::EdgeError;
use crate::aggregate::{Aggregator, background};
use crate::body::request::RequestBody;
use crate::config::EdgeConfig;
use crate::control::catalog::CatalogWatch;
use crate::control::drain::Drain;
use crate::control::heartbeats::Heartbeats;
use crate::http::dates::Dates;
use crate::http::h1::HeadError;
use crate::http::peer::Peer;
use crate::metrics::access::AccessRecord;
use crate::metrics::meter::{Meter, OBSERVED};
use crate::pipeline::handle;
use crate::pipeline::provision::{Provisioned, Subjects};
use crate::pipeline::rate_limit::RateLimits;
use crate::pipeline::route::RouteTable;
use crate::pipeline::worker::Worker;
use crate::response::body::EdgeBody;
use crate::server::admission::Admission;
use crate::server::evictions::Evictions;
use crate::server::handshake::Handshakes;
use crate::server::{Handler, Server};
use crate::tls::authorities::upstream_tls;
use crate::tls::certificates::Certificates;
use crate::upstream::client::UpstreamClient;
use crate::upstream::registry::Upstreams;

/// Verified tokens cached by each worker, at most 160 MB: more callers than one gateway has at once.
const MAX_TOKENS: usize = 100_000;

/// Whether the access log is on. The log filter does not change after startup.
fn is_logged() -> bool {
    OBSERVED && tracing::enabled!(target: "access", tracing::Level::INFO)
}

/// State common to all workers.
pub(crate) struct Shared {
    pub(crate) config: Arc<EdgeConfig>,
    pub(crate) verifier: Verifier,
    pub(crate) subjects: Arc<Subjects>,
    rates: Arc<RateLimits>,
    pub(crate) catalog: Arc<CatalogWatch>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) meter: Meter,
    access: AccessLog<AccessRecord>,
    tracer: Option<Tracer>,
    aggregator: Arc<Aggregator>,
    pub(crate) certificates: Arc<Certificates>,
    heartbeats: Arc<Heartbeats>,
    upstream_tls: Arc<rustls::ClientConfig>,
    pub(crate) stop: CancellationToken,
    pub(crate) drain: Drain,
    pub(crate) evictions: Arc<Evictions>,
    pub(crate) end: CancellationToken,
}

impl Shared {
    /// Creates the shared state, and a receiver that resolves when the access log is written to its end.
    pub(crate) fn start(
        config: EdgeConfig,
        stop: CancellationToken,
    ) -> Result<(Self, oneshot::Receiver<()>), EdgeError> {
        let meter = Meter::new(&config.commit)?;
        let (tell, written) = oneshot::channel();
        let tally = meter.tally.clone();
        let access = AccessLog::start(config.json_log, tally.log_dropped.clone(), move || {
            // The receiver is gone if `serve` did not wait for the log.
            let _told = tell.send(());
        })?;
        let end = CancellationToken::new();
        let config = Arc::new(config);
        let certificates = Arc::new(Certificates::read(config.tls.clone())?);
        let drain = Drain::default();
        let verifier = Verifier::start(config.bearer.clone(), Clock::system(), end.clone());
        let catalog = Arc::new(CatalogWatch::new());
        // The catalog watch has its own connections.
        let upstreams = Arc::new(Upstreams::new(Arc::clone(&config), config.workers + 1));
        let upstream_tls =
            upstream_tls(config.upstream_ca.as_deref()).map_err(EdgeError::UpstreamAuthorities)?;
        let aggregator = Arc::new(Aggregator {
            config: Arc::clone(&config),
            catalog: Arc::clone(&catalog),
            certificates: Arc::clone(&certificates),
            verifier: verifier.clone(),
            upstreams: Arc::clone(&upstreams),
            client: UpstreamClient::new(config.workers, config.budgets, Arc::clone(&upstream_tls)),
            meter: meter.clone(),
            watch: Handle::current(),
            background: background::start(end.clone())?,
            run: Mutex::default(),
        });
        let shared = Self {
            access,
            tracer: meter.tracer()?,
            verifier,
            subjects: Arc::default(),
            rates: Arc::new(RateLimits::new(config.rates)),
            catalog,
            upstreams,
            meter,
            aggregator,
            certificates,
            heartbeats: Arc::new(Heartbeats::new(config.workers)),
            upstream_tls,
            evictions: Arc::new(Evictions::new(drain.clone(), tally)),
            stop,
            drain,
            end,
            config,
        };
        Ok((shared, written))
    }

    /// Returns the checks that every connection passes before it is served.
    pub(crate) fn admission(&self) -> Admission {
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

    /// Returns a client with its own idle connections, for a worker or for the catalog watch.
    pub(crate) fn client(&self, worker: usize) -> UpstreamClient {
        UpstreamClient::new(worker, self.config.budgets, Arc::clone(&self.upstream_tls))
    }

    /// Returns one worker's server.
    pub(crate) fn server(&self, worker: usize) -> Arc<Server<Arc<Worker>>> {
        let (meter, tasks) = (self.meter.for_worker(), TaskTracker::new());
        Arc::new(Server {
            handler: Arc::new(self.worker(worker, &meter, &tasks)),
            timers: self.config.timers,
            limits: self.config.limits,
            meter,
            dates: Dates::default(),
            evictions: Arc::clone(&self.evictions),
            tasks,
            drain: self.drain.clone(),
            end: self.end.clone(),
        })
    }

    fn worker(&self, worker: usize, meter: &Meter, tasks: &TaskTracker) -> Worker {
        Worker {
            config: Arc::clone(&self.config),
            routes: RouteTable::new(),
            tokens: VerifiedTokens::new(self.verifier.clone(), MAX_TOKENS),
            provisioned: Provisioned::of(Arc::clone(&self.subjects)),
            rates: Arc::clone(&self.rates),
            catalog: Arc::clone(&self.catalog),
            upstreams: Arc::clone(&self.upstreams),
            client: self.client(worker),
            held: Arc::default(),
            meter: meter.clone(),
            access: is_logged().then(|| Arc::new(self.access.lines())),
            tracer: self.tracer.clone(),
            aggregator: Arc::clone(&self.aggregator),
            heartbeats: Arc::clone(&self.heartbeats),
            tasks: tasks.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl Handler for Arc<Worker> {
    fn handle(
        &self,
        peer: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<EdgeBody>> + Send {
        handle::handle(self, peer, request)
    }

    fn refuse(&self, peer: Peer, error: HeadError) -> Response<EdgeBody> {
        handle::refuse(self, peer, error)
    }

    fn beat(&self, worker: usize) {
        self.heartbeats.beat(worker);
    }

    fn sweep(&self) {
        self.upstreams.all().iter().for_each(|upstream| self.client.sweep(upstream));
    }
}
