//! The workers: one thread a core, each with a runtime of its own, so that nothing on a request's way is shared between
//! cores. A connection goes to the worker that has the fewest, and stays there.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Edge;
use crate::meter::Handshake;
use crate::wire::admission::Admission;
use crate::wire::connection;
use crate::wire::evictions::Evictions;
use crate::wire::listen::{Accepted, Held, Listener};
use crate::wire::tls::{Greeted, plain};
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

/// A listening socket, and how many connections may be open through all of them.
pub(crate) struct Door {
    pub(crate) socket: TcpListener,
    pub(crate) entrance: Entrance,
    pub(crate) places: Arc<Semaphore>,
    pub(crate) evictions: Arc<Evictions>,
}

/// All workers; each tells when it has ended.
pub(crate) struct Crew(Vec<oneshot::Receiver<()>>);

impl Crew {
    /// Starts a worker for each edge. The first one accepts as well: with one core nothing goes from thread to thread.
    pub(crate) fn start(
        edges: Vec<Arc<Edge>>,
        admission: &Arc<Admission>,
        doors: Vec<Door>,
    ) -> io::Result<Self> {
        let mut workers = edges.into_iter().map(|edge| Worker::new(edge, Arc::clone(admission))).enumerate();
        let Some((first, own)) = workers.next() else { return Ok(Self(Vec::new())) };
        let (mut others, mut finished) = (Vec::new(), Vec::new());
        for (number, worker) in workers {
            let (sender, handed) = mpsc::unbounded_channel();
            others.push(Inbox { sender, open: Arc::clone(&worker.open) });
            let edge = Arc::clone(&worker.edge);
            finished.push(start_worker(number, worker_runtime()?, edge, worker.take_handed(handed))?);
        }
        let (runtime, edge) = (worker_runtime()?, Arc::clone(&own.edge));
        let listeners = listeners(&runtime, doors, &edge)?;
        let source = Acceptor { own, others }.accept(listeners);
        finished.push(start_worker(first, runtime, edge, source)?);
        Ok(Self(finished))
    }

    /// Waits until the drain has begun and every worker's connections have come to their end.
    pub(crate) async fn finish(self) {
        for one in self.0 {
            if one.await.is_err() {
                tracing::error!("a worker did not end well");
            }
        }
    }
}

/// What a worker serves its connections with.
struct Worker {
    edge: Arc<Edge>,
    admission: Arc<Admission>,
    /// How many there are, those on their way to it among them.
    open: Arc<AtomicUsize>,
}

impl Worker {
    fn new(edge: Arc<Edge>, admission: Arc<Admission>) -> Self {
        Self { edge, admission, open: Arc::default() }
    }

    /// Serves a connection on the runtime that this is called in.
    fn take(&self, accepted: Accepted, entrance: Entrance, counted: Counted) {
        let (edge, admission) = (Arc::clone(&self.edge), Arc::clone(&self.admission));
        self.edge.tasks.spawn(counted.until_end_of(serve(edge, admission, accepted, entrance)));
    }

    /// Serves what the first worker accepts, until it accepts no more.
    async fn take_handed(self, mut handed: mpsc::UnboundedReceiver<Handed>) {
        while let Some(Handed { stream, peer, held, entrance, counted }) = handed.recv().await {
            match TcpStream::from_std(stream) {
                Ok(stream) => self.take(Accepted { stream, peer, held }, entrance, counted),
                Err(error) => tracing::warn!(%error, "a connection cannot be served"),
            }
        }
    }
}

/// One of a worker's connections. The worker's count falls when this is dropped, however the connection ends: a panic in
/// its task and a runtime that stops drop it, too.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn among(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }

    /// Runs the connection's work, and counts it until the work has ended, panicked, or is dropped.
    fn until_end_of(self, work: impl Future<Output = ()>) -> impl Future<Output = ()> {
        // An `async` block would have room for the work twice, in every idle connection.
        work.map(move |()| drop(self))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection on its way to another worker, which makes it part of its own runtime.
struct Handed {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    held: Held,
    entrance: Entrance,
    counted: Counted,
}

/// Where another worker gets its connections.
struct Inbox {
    sender: mpsc::UnboundedSender<Handed>,
    open: Arc<AtomicUsize>,
}

/// Added to the count of a worker that is gone: far more connections than there can be, so that another is preferred.
const GONE: usize = usize::MAX / 2;

impl Inbox {
    fn give(&self, accepted: Accepted, entrance: Entrance) {
        let counted = Counted::among(&self.open);
        let Accepted { stream, peer, held } = accepted;
        let hand = |stream| self.sender.send(Handed { stream, peer, held, entrance, counted });
        match stream.into_std().map(hand) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                self.open.store(GONE, Ordering::Relaxed);
                tracing::error!("a worker is gone; its connection is closed");
            }
            Err(error) => tracing::error!(%error, "a connection cannot be given to another worker"),
        }
    }
}

/// What the first worker does for all. The others' inboxes end with it.
struct Acceptor {
    own: Worker,
    others: Vec<Inbox>,
}

impl Acceptor {
    /// Until the drain has begun.
    async fn accept(self, listeners: Vec<(Listener, Entrance)>) {
        let all = listeners.iter().map(|(listener, entrance)| {
            listener.accept_until(&self.own.edge.drain, |accepted| self.give(accepted, *entrance))
        });
        join_all(all).await;
    }

    /// To the worker that has the fewest.
    fn give(&self, accepted: Accepted, entrance: Entrance) {
        let own = self.own.open.load(Ordering::Relaxed);
        let open = |inbox: &&Inbox| inbox.open.load(Ordering::Relaxed);
        if let Some(fewest) = self.others.iter().min_by_key(open).filter(|inbox| open(inbox) < own) {
            return fewest.give(accepted, entrance);
        }
        self.own.take(accepted, entrance, Counted::among(&self.own.open));
    }
}

fn worker_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The listeners as parts of the runtime.
fn listeners(runtime: &Runtime, doors: Vec<Door>, edge: &Edge) -> io::Result<Vec<(Listener, Entrance)>> {
    let _inside = runtime.enter();
    let listeners = doors.into_iter().map(|Door { socket, entrance, places, evictions }| {
        Ok((Listener::new(socket, places, evictions, edge.meter.tally.clone())?, entrance))
    });
    listeners.collect()
}

/// A worker: its connections come from `source`; it ends when that has ended and all of them have.
fn start_worker(
    number: usize,
    runtime: Runtime,
    edge: Arc<Edge>,
    source: impl Future<Output = ()> + Send + 'static,
) -> io::Result<oneshot::Receiver<()>> {
    let (finish, finished) = oneshot::channel();
    std::thread::Builder::new().name(format!("edge-{number}")).spawn(move || {
        let end = edge.end.clone();
        let work = async {
            tokio::spawn(beat(Arc::clone(&edge), number));
            source.await;
            edge.tasks.close();
            edge.tasks.wait().await;
        };
        runtime.block_on(end.run_until_cancelled(work));
        // Everything that still runs is dropped here, before anybody is told.
        drop(runtime);
        let _told = finish.send(());
    })?;
    Ok(finished)
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

/// Serves a connection to its end. This lasts as long: what leads to it is kept in no variable, and each step in a box of
/// its own, which goes with the step.
async fn serve(edge: Arc<Edge>, admission: Arc<Admission>, accepted: Accepted, entrance: Entrance) {
    match entrance {
        Entrance::Plain => {
            let _open = edge.meter.connected("plain");
            let heard = async { admission.heard(admission.admit(accepted).await?).await };
            match Box::pin(heard).await {
                Ok(accepted) => connection::serve(Arc::clone(&edge), plain(accepted)).await,
                Err(error) => tracing::debug!(%error, "a connection was not served"),
            }
        }
        Entrance::Tls => {
            let _open = edge.meter.connected("tls");
            match Box::pin(greeted(&edge, &admission, accepted)).await {
                Ok(greeted) => serve_tls(edge, &admission, greeted).await,
                Err(error) => tracing::debug!(%error, "a connection was not served"),
            }
        }
    }
}

async fn greeted(edge: &Edge, admission: &Admission, accepted: Accepted) -> io::Result<Greeted> {
    let accepted = admission.admit(accepted).await?;
    let greeted = admission.handshakes.greet(accepted).await;
    greeted.inspect_err(|error| edge.meter.shook_hands(Handshake::of(error), "none"))
}

async fn serve_tls(edge: Arc<Edge>, admission: &Admission, greeted: Greeted) {
    let served = Box::pin(admission.handshakes.handshake(greeted)).await.map(|secured| {
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
    use futures_util::future::BoxFuture;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_panics_or_is_dropped_no_longer_counts() {
        let open = Arc::<AtomicUsize>::default();
        let begin = |work: BoxFuture<'static, ()>| tokio::spawn(Counted::among(&open).until_end_of(work));
        begin(Box::pin(async {})).await.expect("a clean end");
        assert_eq!(open.load(Ordering::Relaxed), 0, "after a clean end");
        let waiting = begin(Box::pin(std::future::pending()));
        tokio::task::yield_now().await;
        assert_eq!(open.load(Ordering::Relaxed), 1, "while it is open");
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(open.load(Ordering::Relaxed), 0, "after it was dropped");
        let panicking = begin(Box::pin(async { panic!("a bug in a connection's task") }));
        assert!(panicking.await.is_err_and(|error| error.is_panic()));
        assert_eq!(open.load(Ordering::Relaxed), 0, "after a panic");
    }

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
