//! Background work of a service: loops ([`Workers::every`]) and queues of jobs ([`Workers::queue`]).
//!
//! ```text
//! Core::start makes Workers -> the service registers its loops and queues -> service::serve awaits their end
//! every.rs   runs a step repeatedly                     queue.rs   claims, runs and settles jobs
//! ladder.rs  when a failed job is retried               claim.rs   which ready jobs come next: companies in turn
//! slots.rs   which jobs run concurrently                jobs.rs    the other SQL of job tables: settle, sweep, …
//!                                                       together.rs  settles several completed jobs at a time
//! ```
//!
//! Workers have their own pool, so workers and requests never wait for each other's connections. A stop ends a worker
//! after its current step or jobs; [`crate::serve`] waits for that, within its drain timeout, before it closes the
//! pools. Work still running then is dropped, as in a crash: a transaction rolls back, a lease expires.
//!
//! A panic in a step or a job is logged and counted, and its worker continues.

mod claim;
mod every;
pub mod jobs;
mod ladder;
mod meter;
mod queue;
mod slots;
mod together;

use sqlx::PgPool;
use telemetry::Metrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::DatabaseConfig;
use crate::db::PoolGauges;

pub use claim::{Ask, Claimed, Position};
pub use every::{Next, Pace, Step};
pub use jobs::{JobTable, Kept, Lease, Leased};
pub use ladder::{Ladder, MAX_ATTEMPTS};
pub use queue::{Attempted, Broken, Ended, Queue, QueueConfig, Settlement, Verdict, Wake, Worked};

use meter::Meter;

/// The workers of one service. Cheap to clone.
#[derive(Clone)]
pub struct Workers {
    service: &'static str,
    pool: PgPool,
    /// Cancelled at a stop: no new step and no new job starts.
    stop: CancellationToken,
    /// Cancelled when the drain is over: running work is dropped.
    abort: CancellationToken,
    tasks: TaskTracker,
    meter: Meter,
    gauges: PoolGauges,
}

impl Workers {
    /// Makes the workers of `service`, which stop when `stop` is cancelled. Connects on demand.
    ///
    /// # Errors
    /// A metric family was registered twice.
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

    /// The workers' connections, as the service's role.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Waits until every worker has ended by itself. Before a stop, only workers whose work is done end.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends the workers by dropping running work, then closes their pool.
    pub async fn end(&self) {
        self.stop.cancel();
        self.abort.cancel();
        self.ended().await;
        self.pool.close().await;
    }

    /// Reads the pool's state; called at each scrape.
    pub(crate) fn read_gauges(&self) {
        self.gauges.read(&self.pool, 0);
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let abort = self.abort.clone();
        self.tasks.spawn(async move { abort.run_until_cancelled(work).await });
    }
}
