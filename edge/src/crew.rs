//! The workers: one thread a core, each with a runtime of its own, so that nothing on a request's way is shared between
//! cores. A connection goes to the worker that has the fewest, and stays there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::Edge;
use crate::meter::Handshake;
use crate::wire::connection;
use crate::wire::listen::Accepted;
use crate::wire::proxy;
use crate::wire::tls::{Handshakes, plain};
use crate::wire::upstream::SWEEP_EVERY;

/// How often a worker shows that it is alive.
const BEAT_EVERY: Duration = Duration::from_millis(500);
/// A worker that has shown nothing for this long is stuck; a busy one is late by milliseconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    Tls,
    Plain,
}

/// A connection on its way to a worker, which makes it part of its own runtime.
struct Handed {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
    entrance: Entrance,
}

/// All workers.
pub(crate) struct Crew(Vec<Worker>);

struct Worker {
    inbox: mpsc::UnboundedSender<Handed>,
    open: Arc<AtomicUsize>,
    finished: oneshot::Receiver<()>,
}

impl Crew {
    /// Starts a worker for each edge.
    pub(crate) fn start(edges: Vec<Arc<Edge>>, handshakes: &Arc<Handshakes>) -> io::Result<Self> {
        let numbered = edges.into_iter().enumerate();
        numbered
            .map(|(number, edge)| Worker::start(number, edge, Arc::clone(handshakes)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Gives the connection to the worker that has the fewest.
    pub(crate) fn hand(&self, accepted: Accepted, entrance: Entrance) {
        let Accepted { stream, peer, place } = accepted;
        let fewest = self.0.iter().min_by_key(|worker| worker.open.load(Ordering::Relaxed));
        let (Some(worker), Ok(stream)) = (fewest, stream.into_std()) else { return };
        worker.open.fetch_add(1, Ordering::Relaxed);
        if worker.inbox.send(Handed { stream, peer, place, entrance }).is_err() {
            tracing::error!("a worker is gone; its connection is closed");
        }
    }

    /// Waits until every worker's connections have come to their end.
    pub(crate) async fn finish(self) {
        let finished: Vec<_> = self.0.into_iter().map(|worker| worker.finished).collect();
        for one in finished {
            if one.await.is_err() {
                tracing::error!("a worker did not end well");
            }
        }
    }
}

impl Worker {
    fn start(number: usize, edge: Arc<Edge>, handshakes: Arc<Handshakes>) -> io::Result<Self> {
        let (inbox, handed) = mpsc::unbounded_channel();
        let (finish, finished) = oneshot::channel();
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&open);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name(format!("edge-{number}")).spawn(move || {
            work(&runtime, number, edge, &handshakes, handed, counted);
            // Everything that still runs is dropped here, before anybody is told.
            drop(runtime);
            let _told = finish.send(());
        })?;
        Ok(Self { inbox, open, finished })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the thread's own: they end with it")]
fn work(
    runtime: &Runtime,
    number: usize,
    edge: Arc<Edge>,
    handshakes: &Arc<Handshakes>,
    mut handed: mpsc::UnboundedReceiver<Handed>,
    open: Arc<AtomicUsize>,
) {
    let end = edge.end.clone();
    let serve = async {
        tokio::spawn(beat(Arc::clone(&edge), number));
        while let Some(one) = handed.recv().await {
            let (edge, handshakes, open) = (Arc::clone(&edge), Arc::clone(handshakes), Arc::clone(&open));
            let tasks = edge.tasks.clone();
            tasks.spawn(async move {
                serve(edge, &handshakes, one).await;
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
        edge.tasks.close();
        edge.tasks.wait().await;
    };
    runtime.block_on(end.run_until_cancelled(serve));
}

/// Shows that the worker is alive, and keeps its idle upstream connections fresh.
async fn beat(edge: Arc<Edge>, number: usize) {
    let mut ticks = interval(BEAT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut swept = Instant::now();
    loop {
        ticks.tick().await;
        edge.pulses.beat(number);
        if swept.elapsed() >= SWEEP_EVERY {
            swept = Instant::now();
            edge.places.all().iter().for_each(|place| edge.upstreams.sweep(place));
        }
    }
}

async fn serve(edge: Arc<Edge>, handshakes: &Handshakes, handed: Handed) {
    let Handed { stream, peer, place, entrance } = handed;
    let accepted = match TcpStream::from_std(stream) {
        Ok(stream) => Accepted { stream, peer, place },
        Err(error) => return tracing::warn!(%error, "a connection cannot be served"),
    };
    match entrance {
        Entrance::Plain => {
            let _open = edge.meter.connected("plain");
            match introduced(&edge, accepted).await {
                Ok(accepted) => connection::serve(Arc::clone(&edge), plain(accepted)).await,
                Err(error) => tracing::debug!(%error, "a balancer did not introduce its client"),
            }
        }
        Entrance::Tls => {
            let _open = edge.meter.connected("tls");
            let shaken = async { handshakes.handshake(introduced(&edge, accepted).await?).await };
            // Kept in no variable of this task: it lasts as long as its connection.
            let served = Box::pin(shaken).await.map(|secured| {
                edge.meter.shook_hands(Handshake::Done, secured.version());
                connection::serve(Arc::clone(&edge), secured)
            });
            match served {
                Ok(served) => served.await,
                Err(error) => {
                    edge.meter.shook_hands(Handshake::of(&error), "none");
                    tracing::debug!(%error, "a TLS handshake failed");
                }
            }
        }
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

/// When each worker last showed that it is alive.
#[derive(Debug)]
pub(crate) struct Pulses {
    began: Instant,
    last_ms: Vec<AtomicU64>,
}

impl Pulses {
    pub(crate) fn new(workers: usize) -> Self {
        Self { began: Instant::now(), last_ms: (0..workers).map(|_| AtomicU64::new(0)).collect() }
    }

    fn beat(&self, worker: usize) {
        if let Some(last) = self.last_ms.get(worker) {
            last.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Whether no worker is stuck.
    pub(crate) fn all_beat(&self) -> bool {
        self.all_beat_at(self.now_ms())
    }

    fn all_beat_at(&self, now_ms: u64) -> bool {
        let oldest = now_ms.saturating_sub(u64::try_from(LONGEST_SILENCE.as_millis()).unwrap_or(u64::MAX));
        self.last_ms.iter().all(|last| last.load(Ordering::Relaxed) >= oldest)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_has_been_silent_for_more_than_five_seconds_is_stuck() {
        let pulses = Pulses::new(2);
        assert!(pulses.all_beat_at(5_000));
        assert!(!pulses.all_beat_at(5_001));
        for last in &pulses.last_ms {
            assert!(!pulses.all_beat_at(5_001), "one is not all");
            last.store(1, Ordering::Relaxed);
        }
        assert!(pulses.all_beat_at(5_001));
    }
}
