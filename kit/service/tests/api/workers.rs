//! A service's loops: the effect of a failure, a panic and a stop.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use contract::{Clock, CorrelationId, Subject};
use service::layers::Limits;
use service::workers::{Next, Pace, Step};
use service::{Core, ServiceConfig};
use telemetry::Metrics;
use testkit::{TestDatabase, TokenIssuer};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Longer than any test.
pub(crate) const NEVER: Duration = Duration::from_hours(10);

/// Waits for `what`, with a time limit.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens in time")
}

/// A running service without routes, with a database.
pub(crate) struct Running {
    pub(crate) core: Core,
    pub(crate) database: TestDatabase,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(drain: Duration) -> Self {
        let (database, issuer) = (testkit::database().await, TokenIssuer::start().await);
        let settings = testkit::settings("org", &database, &issuer);
        let mut reader = settings.reader();
        let config = ServiceConfig::read(&mut reader, "org", 0, Limits::FOUNDATION);
        let config = reader.finish(config).expect("the settings are whole");
        let stop = CancellationToken::new();
        let core = Core::start(&config, Clock::system(), &stop).expect("a core");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let serving = service::serve(core.clone(), Router::new(), listener, stop.clone(), drain);
        Self { core, database, stop, serving: tokio::spawn(serving) }
    }

    /// Stops the service and waits until it has ended.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        soon(self.serving).await.expect("no panic");
    }
}

/// The value of one series of `org`.
pub(crate) fn value(metrics: &Metrics, family: &str, labels: &str) -> u64 {
    let text = metrics.render().expect("text");
    let series = format!("{family}{{{labels},service=\"org\"}} ");
    let found = text.lines().find_map(|line| line.strip_prefix(&series));
    assert!(found.is_some(), "{series} in\n{text}");
    found.unwrap_or_default().parse().expect("a whole number")
}

/// Fails, panics, then succeeds, and reports each step.
struct Stumbling {
    turns: usize,
    told: mpsc::UnboundedSender<usize>,
}

impl Step for Stumbling {
    type Error = &'static str;

    #[expect(clippy::panic, reason = "the loop is tested with a panic")]
    async fn step(&mut self) -> Result<Next, Self::Error> {
        self.turns += 1;
        self.told.send(self.turns).expect("the test listens");
        match self.turns {
            1 => Err("the first one fails"),
            2 => panic!("the second one panics"),
            3 => Ok(Next::In(Duration::from_millis(1))),
            _ => Ok(Next::Done),
        }
    }
}

#[tokio::test]
async fn a_step_that_fails_or_panics_is_counted_and_its_loop_goes_on() {
    let service = Running::start(PATIENCE).await;
    let (told, mut turns) = mpsc::unbounded_channel();
    let retry = Duration::from_millis(1);
    service.core.workers.every(
        "stumbling",
        Pace::every(NEVER).retrying(retry, retry),
        Stumbling { turns: 0, told },
    );
    let mut seen = Vec::new();
    while let Some(turn) = soon(turns.recv()).await {
        seen.push(turn);
    }
    assert_eq!(seen, [1, 2, 3, 4], "it ends after it reports that its work is done");
    let steps = |outcome| {
        let labels = format!("outcome=\"{outcome}\",worker=\"stumbling\"");
        value(&service.core.metrics, "platform_worker_steps_total", &labels)
    };
    assert_eq!((steps("failed"), steps("panicked"), steps("succeeded")), (1, 1, 2));
    service.end().await;
}

#[tokio::test]
async fn a_wake_ends_the_pause() {
    let service = Running::start(PATIENCE).await;
    let wake = Arc::new(Notify::new());
    let (told, mut turns) = mpsc::unbounded_channel();
    service.core.workers.every("woken", Pace::every(NEVER).woken_by(Arc::clone(&wake)), move || {
        let told = told.clone();
        async move { told.send(()).map(|()| Next::Woken) }
    });
    soon(turns.recv()).await.expect("the first step runs at once");
    turns.try_recv().expect_err("the next one waits");
    wake.notify_one();
    soon(turns.recv()).await.expect("it was woken");
    service.end().await;
}

#[tokio::test]
async fn a_stop_waits_for_the_step_in_hand_and_closes_the_pools_after_it() {
    let service = Running::start(PATIENCE).await;
    let (begun, release, wrote) =
        (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let pools = [service.core.pool.clone(), service.core.workers.pool().clone()];
    let step = {
        let (begun, release, wrote) = (Arc::clone(&begun), Arc::clone(&release), Arc::clone(&wrote));
        let (workers, requests) = (service.core.for_workers(), service.core.clone());
        move || {
            let (begun, release, wrote) = (Arc::clone(&begun), Arc::clone(&release), Arc::clone(&wrote));
            let pools = [workers.pool.clone(), requests.pool.clone()];
            async move {
                begun.notify_one();
                release.notified().await;
                for pool in pools {
                    sqlx::query("SELECT 1").execute(&pool).await?;
                }
                wrote.store(true, Ordering::SeqCst);
                Ok::<(), sqlx::Error>(())
            }
        }
    };
    service.core.workers.every("slow", NEVER, step);
    soon(begun.notified()).await;
    service.stop.cancel();
    // The service has nothing else to do: without waiting for the step, it would close the pools about now.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!service.serving.is_finished());
    release.notify_one();
    soon(service.serving).await.expect("no panic");
    assert!(wrote.load(Ordering::SeqCst), "both pools were open until the step had ended");
    assert!(pools.iter().all(sqlx::PgPool::is_closed));
}

#[tokio::test]
async fn a_step_that_outlasts_the_drain_is_dropped() {
    let service = Running::start(Duration::from_millis(50)).await;
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let guard = {
        let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
        move || {
            let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
            async move {
                let _told = scopeguard::guard((), |()| dropped.notify_one());
                begun.notify_one();
                pending::<Result<(), String>>().await
            }
        }
    };
    service.core.workers.every("endless", NEVER, guard);
    soon(begun.notified()).await;
    service.end().await;
    soon(dropped.notified()).await;
}

#[tokio::test]
async fn a_step_that_may_be_dropped_holds_no_stop_up() {
    // With any other pace, the service would only end after its drain timeout, which exceeds the test's patience.
    let service = Running::start(NEVER).await;
    let (begun, seen) = oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    service.core.workers.every("waits", Pace::every(NEVER).dropped_at_stop(), move || {
        let begun = begun.lock().expect("no panic").take();
        async move {
            begun.expect("one step").send(()).expect("the test waits");
            pending::<Result<(), String>>().await
        }
    });
    soon(seen).await.expect("it began");
    service.end().await;
}

#[tokio::test]
async fn busy_workers_leave_the_requests_their_connections_and_the_other_way_round() {
    let service = Running::start(PATIENCE).await;
    let (requests, workers) = (service.core.pool.clone(), service.core.workers.pool().clone());
    for (busy, free) in [(&workers, &requests), (&requests, &workers)] {
        let mut held = Vec::new();
        for _ in 0..busy.options().get_max_connections() {
            held.push(soon(busy.acquire()).await.expect("a connection"));
        }
        assert!(busy.try_acquire().is_none());
        sqlx::query("SELECT 1").execute(free).await.expect("the other pool has its own");
    }
    service.end().await;
}

#[tokio::test]
async fn one_caller_leaves_connections_for_the_next() {
    let service = Running::start(PATIENCE).await;
    let core = &service.core;
    let [ann, bob] = ["ann", "bob"].map(|name| Subject::parse(name).expect("a subject"));
    let correlation = CorrelationId::generate();
    let connections = core.pool.options().get_max_connections();
    let mut held = Vec::new();
    for _ in 0..connections / 2 {
        held.push(soon(core.begin(&ann, &correlation)).await.expect("her share"));
    }
    let mut over = Box::pin(core.begin(&ann, &correlation));
    assert!(
        poll_fn(|context| Poll::Ready(over.as_mut().poll(context).is_pending())).await,
        "it waits for hers"
    );
    for _ in 0..connections / 2 {
        held.push(soon(core.begin(&bob, &correlation)).await.expect("there is one left"));
    }
    held.pop().expect("one of his").unchanged().await.expect("the database");
    held.remove(0).unchanged().await.expect("the database");
    soon(over).await.expect("hers has ended").unchanged().await.expect("the database");
    drop(held);
    service.end().await;
}

#[tokio::test]
async fn a_first_step_may_be_put_off() {
    let service = Running::start(PATIENCE).await;
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    service.core.workers.every("later", Pace::every(NEVER).after(NEVER), move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<(), String>(()) }
    });
    service.end().await;
    assert_eq!(steps.load(Ordering::SeqCst), 0);
}
