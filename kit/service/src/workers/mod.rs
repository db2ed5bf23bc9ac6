//! Background work of a service: loops ([`Workers::every`]) and queues of jobs ([`Workers::queue`]).
//!
//! ```text
//! Core::start makes Workers -> the service registers its loops and queues -> service::serve awaits their end
//! every.rs   a step, again and again                    queue.rs   claims, works on and settles jobs
//! ladder.rs  when a failed job is tried again           jobs.rs    the SQL of a table of jobs: claim, settle, sweep, oldest
//! places.rs  which jobs run beside each other              together.rs  settles those that are done several at a time
//! ```
//!
//! Workers have a pool of their own, so neither they nor the requests wait for the other's connections. A stop ends a
//! worker after the step or the jobs in hand; [`crate::serve`] waits for that, within its drain, before it closes the pools.
//! What is still running then is dropped, as a crash would drop it: a transaction rolls back, a lease runs out.
//!
//! A step or a job that panics is logged and counted, and its worker goes on.

mod every;
pub mod jobs;
mod ladder;
mod meter;
mod places;
mod queue;
mod together;

use sqlx::PgPool;
use telemetry::Metrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::DatabaseConfig;
use crate::db::PoolGauges;

pub use every::{Next, Pace, Step};
pub use jobs::{Ask, Claimed, JobTable, Kept, Lease, Leased};
pub use ladder::{Ladder, MAX_ATTEMPTS};
pub use queue::{Attempted, Broken, Ended, Queue, QueueConfig, Settlement, Verdict, Wake, Worked};

use meter::Meter;

/// The workers of one service. Cheap to clone.
#[derive(Clone)]
pub struct Workers {
    service: &'static str,
    pool: PgPool,
    /// No new step and no new job from here on.
    stop: CancellationToken,
    /// The drain is over: what still runs is dropped.
    abort: CancellationToken,
    tasks: TaskTracker,
    meter: Meter,
    gauges: PoolGauges,
}

impl Workers {
    /// Makes the workers of `service`; each one stops when `stop` is cancelled. Connects when it is needed.
    ///
    /// # Errors
    /// A metric family registered twice.
    pub fn start(
        service: &'static str,
        database: &DatabaseConfig,
        metrics: &Metrics,
        stop: &CancellationToken,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            service,
            pool: crate::db::worker_pool(database),
            stop: stop.child_token(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
            meter: Meter::register(metrics)?,
            gauges: PoolGauges::register_for_workers(metrics)?,
        })
    }

    /// The connections of the workers, as the service's role.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Waits until every worker has ended by itself. Before the stop only those end whose work is done.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends the workers: what still runs is dropped. Then closes their pool.
    pub async fn end(&self) {
        self.stop.cancel();
        self.abort.cancel();
        self.ended().await;
        self.pool.close().await;
    }

    /// Reads the pool; called at each scrape.
    pub(crate) fn read_gauges(&self) {
        self.gauges.read(&self.pool, 0);
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let abort = self.abort.clone();
        self.tasks.spawn(async move { abort.run_until_cancelled(work).await });
    }
}
