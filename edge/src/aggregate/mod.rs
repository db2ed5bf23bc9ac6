//! The aggregated metrics: the gateway's own series and those of registry, identity, org, authz and every installed and
//! enabled module, in one exposition. A target that fails costs its own series and nothing else. `fetch` reads a target
//! within the bytes of `budget` and at the `pace` that leaves room for requests, `exposition` and `line` parse it, `merge`
//! puts the answer together. Scrapes at the same time share one run.

mod budget;
mod exposition;
mod fetch;
mod line;
mod merge;
mod pace;
mod text;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use budget::{Budget, Share};
use exposition::{Exposition, Reading};
use fetch::{Failed, Target, fetch};
use merge::Scraped;
use pace::Pace;

use crate::Edge;
use crate::meter::Present;
use crate::way::routes::Service;
use crate::wire::place::Speaks;

/// What all targets may send together.
const TOTAL_BYTES: usize = 8 << 20;
/// The foundation services that have metrics; the identity provider is no target.
const FOUNDATION: [Service; 4] = [Service::Registry, Service::Identity, Service::Org, Service::Authz];

/// The run that is under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Aggregate(Mutex<Option<Run>>);

/// Yields the answer once.
type Run = watch::Receiver<Option<Vec<Bytes>>>;

/// The answer in pieces, from a new run or from the one under way; `None` only when a run was torn down with the edge.
pub(crate) async fn scrape(edge: &Arc<Edge>) -> Option<Vec<Bytes>> {
    let mut run = join(edge);
    let answer = run.wait_for(Option::is_some).await.ok()?;
    answer.clone()
}

fn join(edge: &Arc<Edge>) -> Run {
    let mut present = edge.aggregate.0.lock().unwrap_or_else(PoisonError::into_inner);
    let under_way = present.as_ref().filter(|run| run.borrow().is_none() && run.has_changed().is_ok());
    if let Some(run) = under_way {
        return run.clone();
    }
    let (answer, run) = watch::channel(None);
    *present = Some(run.clone());
    let edge_of_run = Arc::clone(edge);
    // A task of its own: a scraper that leaves must not take the run from the others.
    edge.tasks.spawn_on(
        async move {
            let pieces = run_apart(&edge_of_run).await;
            // The answer belongs to those who wait for it now; the next scraper gets a fresh one.
            let mut present = edge_of_run.aggregate.0.lock().unwrap_or_else(PoisonError::into_inner);
            *present = None;
            answer.send_replace(pieces);
        },
        &edge.watch,
    );
    run
}

/// One run on the thread that gives way to requests: reading and merging megabytes must not hold them up.
async fn run_apart(edge: &Arc<Edge>) -> Option<Vec<Bytes>> {
    // Not there: what it holds while it reads them, the workers need.
    let own = own(edge);
    let edge_of_run = Arc::clone(edge);
    let merging = edge.tasks.spawn_on(async move { run_once(&edge_of_run, &own).await }, &edge.apart);
    // It is torn down with the edge.
    merging.await.ok()
}

async fn run_once(edge: &Arc<Edge>, own: &Exposition) -> Vec<Bytes> {
    let mut targets = fetch_all(edge, targets(edge)).await;
    for service in merge::settle(own, &mut targets) {
        failed(&service, &Failed::Contradiction);
    }
    merge::render(own, &targets)
}

/// Who is scraped, in the order in which they rank: foundation, then modules by key.
fn targets(edge: &Edge) -> Vec<Target> {
    let foundation = FOUNDATION.into_iter().map(|service| Target {
        service: service.name().to_owned(),
        speaks: Speaks::Http1,
        authority: edge.authority(service).clone(),
    });
    let catalog = edge.catalog.present();
    // One target a module: the first of its hosts.
    let modules = catalog.iter().flat_map(|catalog| catalog.enabled()).filter_map(|module| {
        let first = edge.config.addresses.module(&module.key, module.port).into_iter().next();
        first.map(|(speaks, authority)| Target { service: module.key.clone(), speaks, authority })
    });
    foundation.chain(modules).collect()
}

/// The bytes that the targets of one run share.
fn budget_of_a_run() -> Arc<Budget> {
    Budget::new(TOTAL_BYTES)
}

async fn fetch_all(edge: &Arc<Edge>, targets: Vec<Target>) -> Vec<Scraped> {
    let budget = budget_of_a_run();
    let mut scraped: Vec<Scraped> =
        targets.iter().map(|target| Scraped { service: target.service.clone(), exposition: None }).collect();
    let shares: Vec<Share> = targets.iter().map(|_| budget.share()).collect();
    let pace = Pace::begin();
    let mut running = JoinSet::new();
    for ((position, target), share) in targets.into_iter().enumerate().zip(shares.iter().cloned()) {
        let edge = Arc::clone(edge);
        running.spawn(async move { (position, fetch(&edge.upstreams, &target, &share, pace).await) });
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
fn present(edge: &Edge) -> Present {
    Present {
        catalog_revision: edge.catalog.present().as_ref().map(|catalog| catalog.revision()),
        catalog_silence: edge.catalog.silent_for(),
        certificate_expiry: edge.certificates.expiry(),
        keys_age: edge.tokens.verifier().keys_age(),
    }
}

/// The gateway's own series.
fn own(edge: &Edge) -> Exposition {
    let read = |text: String| {
        let mut reading = Reading::new("gateway");
        reading.feed(text.as_bytes())?;
        reading.finish(|| ())
    };
    let own = edge.meter.render(&present(edge), &edge.places.lines()).map_err(|error| error.to_string());
    own.and_then(|text| read(text).map_err(|fault| fault.to_string())).unwrap_or_else(|error| {
        tracing::error!(%error, "the gateway's own metrics cannot be read");
        Exposition::empty()
    })
}

fn failed(service: &str, error: &Failed) {
    tracing::warn!(service, %error, "a metrics target failed");
}
