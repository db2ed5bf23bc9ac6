//! The workers: one thread per core, each with its own runtime, so that cores share nothing on a request's path. A
//! connection goes to the worker with the fewest, and stays there.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::meter::Handshake;
use crate::server::admission::Admission;
use crate::server::evictions::Evictions;
use crate::server::handshake::{Greeted, plain};
use crate::server::listen::{Accepted, Held, Listener};
use crate::server::{Handler, Server, connection};
use crate::upstream::client::SWEEP_EVERY;

/// How often a worker signals that it is alive.
const BEAT_EVERY: Duration = Duration::from_millis(500);

/// The listener on which a connection arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Tls,
    Plain,
}

/// A listening socket, with the connection permits that all sockets share.
pub(crate) struct ListenerSocket {
    pub(crate) socket: TcpListener,
    pub(crate) kind: ListenerKind,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) evictions: Arc<Evictions>,
}

/// All workers; each receiver resolves when its worker has ended.
pub(crate) struct WorkerPool(Vec<oneshot::Receiver<()>>);

impl WorkerPool {
    /// Starts a worker for each server. The first one also accepts, so that with one core nothing crosses threads.
    pub(crate) fn start<H: Handler>(
        servers: Vec<Arc<Server<H>>>,
        admission: &Arc<Admission>,
        sockets: Vec<ListenerSocket>,
    ) -> io::Result<Self> {
        let mut workers =
            servers.into_iter().map(|server| LocalWorker::new(server, Arc::clone(admission))).enumerate();
        let Some((first, own)) = workers.next() else { return Ok(Self(Vec::new())) };
        let (mut others, mut finished) = (Vec::new(), Vec::new());
        for (number, worker) in workers {
            let (sender, handed) = mpsc::unbounded_channel();
            others.push(WorkerHandle { sender, open: Arc::clone(&worker.open) });
            let server = Arc::clone(&worker.server);
            finished.push(start_worker(number, worker_runtime()?, server, worker.take_handed(handed))?);
        }
        let (runtime, server) = (worker_runtime()?, Arc::clone(&own.server));
        let listeners = listeners(&runtime, sockets, &server)?;
        let source = Acceptor { own, others }.accept(listeners);
        finished.push(start_worker(first, runtime, server, source)?);
        Ok(Self(finished))
    }

    /// Waits until the drain has begun and every worker's connections have ended.
    pub(crate) async fn finish(self) {
        for one in self.0 {
            if one.await.is_err() {
                tracing::error!("worker exited abnormally");
            }
        }
    }
}

/// A worker's server and admission, and its number of connections.
struct LocalWorker<H> {
    server: Arc<Server<H>>,
    admission: Arc<Admission>,
    /// Open connections, including those still being handed to this worker.
    open: Arc<AtomicUsize>,
}

impl<H: Handler> LocalWorker<H> {
    fn new(server: Arc<Server<H>>, admission: Arc<Admission>) -> Self {
        Self { server, admission, open: Arc::default() }
    }

    /// Serves a connection on the current runtime.
    fn take(&self, accepted: Accepted, listener: ListenerKind, counted: Counted) {
        let (server, admission) = (Arc::clone(&self.server), Arc::clone(&self.admission));
        self.server.tasks.spawn(counted.until_end_of(serve(server, admission, accepted, listener)));
    }

    /// Serves the connections that the first worker hands over, until it stops accepting.
    async fn take_handed(self, mut handed: mpsc::UnboundedReceiver<Handed>) {
        while let Some(Handed { stream, peer, held, listener, counted }) = handed.recv().await {
            match TcpStream::from_std(stream) {
                Ok(stream) => self.take(Accepted { stream, peer, held }, listener, counted),
                Err(error) => tracing::warn!(%error, "cannot serve a connection"),
            }
        }
    }
}

/// One of a worker's connections. Dropping it decrements the worker's count, however the connection ends: a panic in
/// its task and a stopping runtime drop it too.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn among(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }

    /// Runs the connection's work, and counts it until the work has ended, panicked, or been dropped.
    fn until_end_of(self, work: impl Future<Output = ()>) -> impl Future<Output = ()> {
        // An `async` block would reserve space for the work twice, in every idle connection.
        work.map(move |()| drop(self))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection being handed to another worker, which registers it with its own runtime.
struct Handed {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    held: Held,
    listener: ListenerKind,
    counted: Counted,
}

/// Hands connections to another worker.
struct WorkerHandle {
    sender: mpsc::UnboundedSender<Handed>,
    open: Arc<AtomicUsize>,
}

/// Stored as the count of a worker that has exited: far more connections than there can be, so that another worker is
/// preferred.
const GONE: usize = usize::MAX / 2;

impl WorkerHandle {
    fn give(&self, accepted: Accepted, listener: ListenerKind) {
        let counted = Counted::among(&self.open);
        let Accepted { stream, peer, held } = accepted;
        let hand = |stream| self.sender.send(Handed { stream, peer, held, listener, counted });
        match stream.into_std().map(hand) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                self.open.store(GONE, Ordering::Relaxed);
                tracing::error!("a worker has exited; closing its connection");
            }
            Err(error) => tracing::error!(%error, "cannot hand a connection to another worker"),
        }
    }
}

/// The first worker's acceptor. The others' channels close when it is dropped.
struct Acceptor<H> {
    own: LocalWorker<H>,
    others: Vec<WorkerHandle>,
}

impl<H: Handler> Acceptor<H> {
    /// Accepts until the drain has begun.
    async fn accept(self, listeners: Vec<(Listener, ListenerKind)>) {
        let all = listeners.iter().map(|(listener, kind)| {
            listener.accept_until(&self.own.server.drain, |accepted| self.give(accepted, *kind))
        });
        join_all(all).await;
    }

    /// Gives the connection to the worker with the fewest.
    fn give(&self, accepted: Accepted, listener: ListenerKind) {
        let own = self.own.open.load(Ordering::Relaxed);
        let open = |inbox: &&WorkerHandle| inbox.open.load(Ordering::Relaxed);
        if let Some(fewest) = self.others.iter().min_by_key(open).filter(|inbox| open(inbox) < own) {
            return fewest.give(accepted, listener);
        }
        self.own.take(accepted, listener, Counted::among(&self.own.open));
    }
}

fn worker_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Registers the listeners with the runtime.
fn listeners<H>(
    runtime: &Runtime,
    sockets: Vec<ListenerSocket>,
    server: &Server<H>,
) -> io::Result<Vec<(Listener, ListenerKind)>> {
    let _inside = runtime.enter();
    let listeners = sockets.into_iter().map(|ListenerSocket { socket, kind, permits, evictions }| {
        Ok((Listener::new(socket, permits, evictions, server.meter.tally.clone())?, kind))
    });
    listeners.collect()
}

/// Starts a worker's thread. The worker takes connections from `source`, and ends when `source` and all its connections
/// have ended.
fn start_worker<H: Handler>(
    number: usize,
    runtime: Runtime,
    server: Arc<Server<H>>,
    source: impl Future<Output = ()> + Send + 'static,
) -> io::Result<oneshot::Receiver<()>> {
    let (finish, finished) = oneshot::channel();
    std::thread::Builder::new().name(format!("edge-{number}")).spawn(move || {
        let end = server.end.clone();
        let work = async {
            tokio::spawn(beat(Arc::clone(&server), number));
            source.await;
            server.tasks.close();
            server.tasks.wait().await;
        };
        runtime.block_on(end.run_until_cancelled(work));
        // Drops everything still running before the end is reported.
        drop(runtime);
        let _told = finish.send(());
    })?;
    Ok(finished)
}

/// Signals that the worker is alive, and sweeps its idle upstream connections.
async fn beat<H: Handler>(server: Arc<Server<H>>, number: usize) {
    let mut ticks = interval(BEAT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut swept = Instant::now();
    loop {
        ticks.tick().await;
        server.handler.beat(number);
        if swept.elapsed() >= SWEEP_EVERY {
            swept = Instant::now();
            server.handler.sweep();
        }
    }
}

/// Serves a connection to its end. This future lives as long as the connection: no variable holds an earlier step, and
/// each step is boxed and freed when it ends.
async fn serve<H: Handler>(
    server: Arc<Server<H>>,
    admission: Arc<Admission>,
    accepted: Accepted,
    listener: ListenerKind,
) {
    match listener {
        ListenerKind::Plain => {
            let _open = server.meter.connected("plain");
            let heard = async { admission.heard(admission.admit(accepted).await?).await };
            match Box::pin(heard).await {
                Ok(accepted) => connection::serve(Arc::clone(&server), plain(accepted)).await,
                Err(error) => tracing::debug!(%error, "a connection was not served"),
            }
        }
        ListenerKind::Tls => {
            let _open = server.meter.connected("tls");
            match Box::pin(greeted(&server, &admission, accepted)).await {
                Ok(greeted) => serve_tls(server, &admission, greeted).await,
                Err(error) => tracing::debug!(%error, "a connection was not served"),
            }
        }
    }
}

async fn greeted<H>(server: &Server<H>, admission: &Admission, accepted: Accepted) -> io::Result<Greeted> {
    let accepted = admission.admit(accepted).await?;
    let greeted = admission.handshakes.greet(accepted).await;
    greeted.inspect_err(|error| server.meter.shook_hands(Handshake::of(error), "none"))
}

async fn serve_tls<H: Handler>(server: Arc<Server<H>>, admission: &Admission, greeted: Greeted) {
    let connection = Box::pin(admission.handshakes.handshake(greeted)).await.map(|secured| {
        server.meter.shook_hands(Handshake::Done, secured.version());
        connection::serve(Arc::clone(&server), secured)
    });
    match connection {
        Ok(connection) => connection.await,
        Err(error) => {
            server.meter.shook_hands(Handshake::of(&error), "none");
            tracing::debug!(%error, "a TLS handshake failed");
        }
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
}
