//! The aggregated metrics: the gateway's own series and those of registry, identity, org, authz and every installed and
//! enabled module, in one exposition. A target that fails costs its own series and nothing else. `fetch` reads a target
//! within the bytes of `budget` and at the `pace` that leaves room for requests, `exposition` and `line` parse it, `merge`
//! puts the answer together. Scrapes at the same time share one run.

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

/// What all targets may send together.
const TOTAL_BYTES: usize = 8 << 20;
/// The foundation services that have metrics; the identity provider is no target.
const FOUNDATION: [Service; 4] = [Service::Registry, Service::Identity, Service::Org, Service::Authz];

/// What the gateway reads for its own series and for the targets, and the run that is under way, if there is one.
pub(crate) struct Aggregator {
    pub(crate) config: Arc<EdgeConfig>,
    pub(crate) catalog: Arc<CatalogWatch>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) verifier: Verifier,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) client: UpstreamClient,
    pub(crate) meter: Meter,
    /// Where a run is begun: the runtime that serves no requests.
    pub(crate) watch: Handle,
    /// Where megabytes are read and merged: a thread that gives way to requests.
    pub(crate) background: Handle,
    pub(crate) run: Mutex<Option<Run>>,
}

/// Yields the answer once.
pub(crate) type Run = watch::Receiver<Option<Vec<Bytes>>>;

impl Aggregator {
    /// The answer in pieces, from a new run or from the one under way; `None` only when a run was torn down with the
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
        // A task of its own: a scraper that leaves must not take the run from the others.
        self.watch.spawn(async move {
            let pieces = aggregator.run_in_background().await;
            // The answer belongs to those who wait for it now; the next scraper gets a fresh one.
            let mut present = aggregator.present_run();
            *present = None;
            answer.send_replace(pieces);
        });
        run
    }

    fn present_run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One run on the thread that gives way to requests: reading and merging megabytes must not hold them up.
    async fn run_in_background(self: &Arc<Self>) -> Option<Vec<Bytes>> {
        // Not there: what it holds while it reads them, the workers need.
        let own = own(self);
        let aggregator = Arc::clone(self);
        let merging = self.background.spawn(async move { run_once(&aggregator, &own).await });
        // It is torn down with the gateway.
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

/// Who is scraped, in the order in which they rank: foundation, then modules by key.
fn targets(aggregator: &Aggregator) -> Vec<Target> {
    let foundation = FOUNDATION.into_iter().map(|service| Target {
        service: service.name().to_owned(),
        speaks: UpstreamProtocol::Http1,
        authority: aggregator.config.addresses.service(service).clone(),
    });
    let catalog = aggregator.catalog.present();
    // One target a module: the first of its hosts.
    let modules = catalog.iter().flat_map(|catalog| catalog.enabled()).filter_map(|module| {
        let first = aggregator.config.addresses.module(&module.key, module.port).into_iter().next();
        first.map(|(speaks, authority)| Target { service: module.key.clone(), speaks, authority })
    });
    foundation.chain(modules).collect()
}

/// The bytes that the targets of one run share.
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
    // A task that panicked leaves its target failed.
    while let Some(ended) = running.join_next().await {
        let Ok((position, outcome)) = ended else { continue };
        let Some(target) = scraped.get_mut(position) else { continue };
        match outcome {
            Ok(exposition) => target.exposition = Some(exposition),
            Err(error) => failed(&target.service, &error),
        }
    }
    for (target, share) in scraped.iter_mut().zip(&shares) {
        // Cut for a later one, when it was already whole.
        if share.is_cut() && target.exposition.take().is_some() {
            failed(&target.service, &Failed::Cut);
        }
    }
    scraped
}

/// What the gateway knows at this moment, beside what it counts.
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
