//! The gateway: the single public entry point. One request, step by step; the types change at each step, so a step can
//! be neither skipped nor reordered:
//!
//! | step | file | takes, gives |
//! |---|---|---|
//! | accept | `server/listen.rs`, `workers.rs` | socket, `Accepted`, handed to the worker with the fewest connections |
//! | admit | `server/admission.rs`, `proxy.rs`, `addresses.rs`, `evictions.rs` | `Accepted`, `Accepted` with the client's address, within that address's limit |
//! | handshake | `server/handshake.rs`, `tls/hello.rs`, `tls/sending.rs` | `Accepted`, `Secured` |
//! | serve | `server/connection.rs`, `http1/`, `http2/` | `Secured`, many requests; HTTP/2's timers in `activity.rs`, its writes in `writes.rs` |
//! | handle | `pipeline/handle.rs` | request, response: all steps on one screen |
//! | guard | `pipeline/guard.rs` | request, `Framed`, (preflight: `cors.rs`), `Guarded` |
//! | resolve | `pipeline/route.rs`, table `routes.rs`, paths `path.rs` | `&Guarded`, `Route` |
//! | authenticate, ensure | `pipeline/authenticate.rs`, `rate_limit.rs`, `provision.rs` | `&Guarded`, `Caller` |
//! | authorize | `pipeline/authorize.rs`, questions `questions.rs` | `Route`, `&Caller`, `Authorized` |
//! | build | `pipeline/outbound.rs`, `forwarded.rs`, `elements.rs` | `Guarded`, `Authorized`, `Outbound` |
//! | send | `upstream/client.rs`, `target.rs`, `idle_pool.rs`, `http1.rs`, `http2/` | `Outbound`, the upstream's answer |
//! | answer | `pipeline/inbound.rs`, `context.rs`, `response/body.rs`, `metrics/access.rs` | the answer, streamed, labelled, counted; its access record closed |
//!
//! Each core has a worker: a thread with its own runtime, connections, token cache and upstream pools. The first worker
//! accepts for all. The thread that calls [`serve`] runs the watch tasks and merges metrics.
//!
//! A folder imports only folders that precede it in this list: `config`, `http`, `metrics`, `tls`, `body`, `upstream`,
//! `response`, `control`, `aggregate`, `pipeline`, `server`. `state.rs` assembles them. `cargo xtask arch` checks this.
//!
//! The crate must not depend on axum, sqlx or kit/service: its overhead per request is measured in microseconds.

mod aggregate;
#[doc(hidden)]
pub mod bench;
mod body;
mod config;
mod control;
mod http;
mod metrics;
mod pipeline;
mod reload;
mod response;
mod server;
mod state;
mod tls;
mod tuning;
mod upstream;

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

pub use config::{EDGE_ADDR, EDGE_PLAIN_ADDR, EdgeConfig, ListenAddresses, TLS_CERT, TLS_KEY, VARIABLES};
pub use server::activation::{HandedOver, handed_over};
pub use tls::certificates::CertificateError;
pub use tuning::start_tuned;

use server::evictions::Evictions;
use server::listen::prepared;
use server::workers::{ListenerKind, ListenerSocket, WorkerPool};
use state::Shared;

/// The gateway's API description as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// How long the first connections wait for the catalog and the provider's keys: far longer than a healthy start needs,
/// and shorter than probes and clients tolerate.
const LONGEST_WARM_UP: Duration = Duration::from_secs(2);

/// How long shutdown waits for the access log: writing its queue takes a fraction of that.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Why the gateway cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The TLS files cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A metric family was registered twice.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A worker's thread or runtime cannot be created, or a listener cannot be used.
    #[error("cannot start a worker or use a listener: {0}")]
    Worker(#[from] io::Error),
    /// `PLATFORM_GATEWAY_UPSTREAM_CA` cannot be used.
    #[error("PLATFORM_GATEWAY_UPSTREAM_CA cannot be used: {0}")]
    UpstreamAuthorities(String),
}

/// Serves both listeners until `stop`, then drains. For `PLATFORM_DRAIN_MIN` only `/readyz` reports the drain. Then the
/// gateway accepts no new connections, sends a goodbye on the open ones, and lets requests in flight finish within
/// `PLATFORM_DRAIN_TIMEOUT`. SIGHUP reloads the TLS files.
///
/// # Errors
/// Unusable TLS files or listeners, or threads that cannot be created.
pub async fn serve(
    mut config: EdgeConfig,
    tls: TcpListener,
    plain: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), EdgeError> {
    for listener in std::iter::once(&tls).chain(&plain) {
        config.hosts.listen(listener.local_addr()?.port());
    }
    let (shared, written) = Shared::start(config, stop)?;
    // Dropping this future also ends the workers.
    let _ended = shared.end.clone().drop_guard();
    let admission = Arc::new(shared.admission());
    let servers = (0..shared.config.workers).map(|worker| shared.server(worker)).collect();
    let sockets = sockets(tls, plain, shared.config.limits.connections, &shared.evictions)?;
    let watchers = watch(&shared);
    warm(&shared).await;
    let workers = WorkerPool::start(servers, &admission, sockets)?;
    begin_drain(&shared).await;
    drain(&shared, workers).await;
    drop((watchers, shared));
    // The log's last lines must be written before the process ends, but its reader may have stopped.
    if timeout(LAST_LINES, written).await.is_err() {
        tracing::warn!("timed out writing the last lines of the access log");
    }
    Ok(())
}

/// Spawns the background tasks, which end when the set is dropped.
fn watch(shared: &Shared) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    let (catalog, upstreams) = (Arc::clone(&shared.catalog), Arc::clone(&shared.upstreams));
    let (client, subjects) = (shared.client(shared.config.workers), Arc::clone(&shared.subjects));
    watchers.spawn(async move { catalog.follow(&client, &upstreams, || subjects.forget()).await });
    let tally = shared.meter.tally.clone();
    watchers.spawn(Arc::clone(&shared.certificates).follow(move |reload| tally.reloaded(reload)));
    let (certificates, tally) = (Arc::clone(&shared.certificates), shared.meter.tally.clone());
    watchers.spawn(async move { reload::listen(&certificates, &tally).await });
    watchers
}

/// Waits for the catalog and the provider's keys, so that a restart does not refuse requests that succeeded before it.
/// Meanwhile new connections wait in the listeners' backlogs. If the wait times out, the gateway answers 503 where it
/// needs either.
async fn warm(shared: &Shared) {
    let known = async { tokio::join!(shared.catalog.arrived(), shared.verifier.keys_arrived()) };
    let waited = shared.stop.run_until_cancelled(timeout(LONGEST_WARM_UP, known)).await;
    if waited.is_some_and(|known| known.is_err()) {
        tracing::warn!("starting without the catalog or the provider's keys");
    }
}

/// Prepares both listeners, which share one limit of `connections`.
fn sockets(
    tls: TcpListener,
    plain: Option<TcpListener>,
    connections: usize,
    evictions: &Arc<Evictions>,
) -> io::Result<Vec<ListenerSocket>> {
    let permits = Arc::new(Semaphore::new(connections));
    let both = [Some((tls, ListenerKind::Tls)), plain.map(|plain| (plain, ListenerKind::Plain))];
    let sockets = both.into_iter().flatten().map(|(socket, kind)| {
        let (permits, evictions) = (Arc::clone(&permits), Arc::clone(evictions));
        Ok(ListenerSocket { socket: prepared(socket)?, kind, permits, evictions })
    });
    sockets.collect()
}

async fn begin_drain(shared: &Shared) {
    shared.stop.cancelled().await;
    tokio::time::sleep(shared.config.drain_min).await;
    shared.drain.begin();
}

async fn drain(shared: &Shared, workers: WorkerPool) {
    let mut finished = std::pin::pin!(workers.finish());
    let in_time = timeout(shared.config.drain_timeout, finished.as_mut()).await.is_ok();
    shared.end.cancel();
    if !in_time {
        tracing::warn!("the drain timed out; dropping open connections");
        finished.await;
    }
}
