//! The aggregated metrics: the series of the gateway, registry, identity, org, authz and every installed and enabled
//! module in one exposition. A failing target loses only its own series. `fetch` reads a target within `budget` at the
//! pace of `throttle`, `exposition` and `line` parse it, `merge` builds the answer. Concurrent scrapes share one run.

pub(crate) mod background;
mod budget;
mod exposition;
mod fetch;
mod line;
mod merge;
mod text;
mod throttle;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bearer::Verifier;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::aggregate::budget::{Budget, Share};
use crate::aggregate::exposition::{Exposition, Reading};
use crate::aggregate::fetch::{Failed, Target, fetch};
use crate::aggregate::merge::Scraped;
use crate::aggregate::throttle::Pace;

use crate::config::{EdgeConfig, Service, UpstreamProtocol};
use crate::control::catalog::CatalogWatch;
use crate::metrics::meter::{Meter, Present};
use crate::tls::certificates::Certificates;
use crate::upstream::client::UpstreamClient;
use crate::upstream::registry::Upstreams;

/// The maximum bytes of all targets together.
const TOTAL_BYTES: usize = 8 << 20;
/// The foundation services with metrics; the identity provider is not scraped.
const FOUNDATION: [Service; 4] = [Service::Registry, Service::Identity, Service::Org, Service::Authz];

/// The sources of the gateway's own series and of the targets, and the current run, if any.
pub(crate) struct Aggregator {
    pub(crate) config: Arc<EdgeConfig>,
    pub(crate) catalog: Arc<CatalogWatch>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) verifier: Verifier,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) client: UpstreamClient,
    pub(crate) meter: Meter,
    /// The runtime on which a run starts; it serves no requests.
    pub(crate) watch: Handle,
    /// The low-priority thread that reads and merges megabytes.
    pub(crate) background: Handle,
    pub(crate) run: Mutex<Option<Run>>,
}

/// Resolves once, with the answer.
pub(crate) type Run = watch::Receiver<Option<Vec<Bytes>>>;

impl Aggregator {
    /// Returns the answer in pieces, from a new run or the current one; `None` only if a run was torn down with the
    /// gateway.
    pub(crate) async fn scrape(self: &Arc<Self>) -> Option<Vec<Bytes>> {
        let mut run = self.join();
        let answer = run.wait_for(Option::is_some).await.ok()?;
        answer.clone()
    }

    fn join(self: &Arc<Self>) -> Run {
        let mut present = self.present_run();
        let under_way = present.as_ref().filter(|run| run.borrow().is_none() && run.has_changed().is_ok());
        if let Some(run) = under_way {
            return run.clone();
        }
        let (answer, run) = watch::channel(None);
        *present = Some(run.clone());
        let aggregator = Arc::clone(self);
        // A separate task: a scraper that disconnects must not cancel the run for the others.
        self.watch.spawn(async move {
            let pieces = aggregator.run_in_background().await;
            // The answer is for the current waiters; the next scraper starts a fresh run.
            let mut present = aggregator.present_run();
            *present = None;
            answer.send_replace(pieces);
        });
        run
    }

    fn present_run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs on the low-priority thread: reading and merging megabytes must not delay requests.
    async fn run_in_background(self: &Arc<Self>) -> Option<Vec<Bytes>> {
        // Not on that thread: collecting these takes locks that the workers need.
        let own = own(self);
        let aggregator = Arc::clone(self);
        let merging = self.background.spawn(async move { run_once(&aggregator, &own).await });
        // Fails only when it is torn down with the gateway.
        merging.await.ok()
    }
}

async fn run_once(aggregator: &Arc<Aggregator>, own: &Exposition) -> Vec<Bytes> {
    let mut targets = fetch_all(aggregator, targets(aggregator)).await;
    for service in merge::settle(own, &mut targets) {
        failed(&service, &Failed::Contradiction);
    }
    merge::render(own, &targets)
}

/// The targets in order of precedence: foundation, then modules by key.
fn targets(aggregator: &Aggregator) -> Vec<Target> {
    let foundation = FOUNDATION.into_iter().map(|service| Target {
        service: service.name().to_owned(),
        speaks: UpstreamProtocol::Http1,
        authority: aggregator.config.addresses.service(service).clone(),
    });
    let catalog = aggregator.catalog.present();
    // One target per module: the first of its hosts.
    let modules = catalog.iter().flat_map(|catalog| catalog.enabled()).filter_map(|module| {
        let first = aggregator.config.addresses.module(&module.key, module.port).into_iter().next();
        first.map(|(speaks, authority)| Target { service: module.key.clone(), speaks, authority })
    });
    foundation.chain(modules).collect()
}

/// The byte budget that the targets of one run share.
fn budget_of_a_run() -> Arc<Budget> {
    Budget::new(TOTAL_BYTES)
}

async fn fetch_all(aggregator: &Arc<Aggregator>, targets: Vec<Target>) -> Vec<Scraped> {
    let budget = budget_of_a_run();
    let mut scraped: Vec<Scraped> =
        targets.iter().map(|target| Scraped { service: target.service.clone(), exposition: None }).collect();
    let shares: Vec<Share> = targets.iter().map(|_| budget.share()).collect();
    let pace = Pace::begin();
    let mut running = JoinSet::new();
    for ((position, target), share) in targets.into_iter().enumerate().zip(shares.iter().cloned()) {
        let aggregator = Arc::clone(aggregator);
        running.spawn(async move { (position, fetch(&aggregator.client, &target, &share, pace).await) });
    }
    // The target of a task that panicked counts as failed.
    while let Some(ended) = running.join_next().await {
        let Ok((position, outcome)) = ended else { continue };
        let Some(target) = scraped.get_mut(position) else { continue };
        match outcome {
            Ok(exposition) => target.exposition = Some(exposition),
            Err(error) => failed(&target.service, &error),
        }
    }
    for (target, share) in scraped.iter_mut().zip(&shares) {
        // A complete target may be cut later, in favour of another.
        if share.is_cut() && target.exposition.take().is_some() {
            failed(&target.service, &Failed::Cut);
        }
    }
    scraped
}

/// The gateway's current state, besides its counters.
fn present(aggregator: &Aggregator) -> Present {
    Present {
        catalog_revision: aggregator.catalog.present().as_ref().map(|catalog| catalog.revision()),
        catalog_silence: aggregator.catalog.silent_for(),
        certificate_expiry: aggregator.certificates.expiry(),
        keys_age: aggregator.verifier.keys_age(),
    }
}

/// The gateway's own series.
fn own(aggregator: &Aggregator) -> Exposition {
    let read = |text: String| {
        let mut reading = Reading::new("gateway");
        reading.feed(text.as_bytes())?;
        reading.finish(|| ())
    };
    let own = aggregator
        .meter
        .render(&present(aggregator), &aggregator.upstreams.lines())
        .map_err(|error| error.to_string());
    own.and_then(|text| read(text).map_err(|fault| fault.to_string())).unwrap_or_else(|error| {
        tracing::error!(%error, "the gateway's own metrics cannot be read");
        Exposition::empty()
    })
}

fn failed(service: &str, error: &Failed) {
    tracing::warn!(service, %error, "a metrics target failed");
}
