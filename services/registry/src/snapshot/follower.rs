//! One task a process that notices changes of the catalog, its own and those of other registry processes, and publishes
//! each as a snapshot. It reads nothing while no stream is open.

use std::sync::Arc;
use std::time::Duration;

use contract::catalog::CatalogSnapshot;
use service::ApiError;
use sqlx::PgPool;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::catalog::store;

/// How late another process's change may be seen: half of the 100 ms that edges promise.
const POLL: Duration = Duration::from_millis(50);
/// Between two tries while the database does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// The newest snapshot that was noticed; `None` before the first.
pub(crate) type Latest = Option<Arc<CatalogSnapshot>>;

/// Gives streams what the task notices. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    latest: watch::Sender<Latest>,
    hint: Arc<Notify>,
}

impl Follower {
    /// Starts the task; it ends with `stop`.
    pub(crate) fn start(pool: PgPool, stop: CancellationToken) -> Self {
        let follower = Self { latest: watch::Sender::new(None), hint: Arc::new(Notify::new()) };
        tokio::spawn(follower.clone().run(pool, stop));
        follower
    }

    /// Says that something was committed just now; without it the next poll notices.
    pub(crate) fn look(&self) {
        self.hint.notify_one();
    }

    /// A stream's end of it.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Latest> {
        let receiver = self.latest.subscribe();
        self.look();
        receiver
    }

    async fn run(self, pool: PgPool, stop: CancellationToken) {
        loop {
            let pause = self.step(&pool).await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.hint.notified() => {}
                () = until(pause) => {}
            }
        }
    }

    /// One look; gives how long to wait for the next, `None`: until somebody asks.
    async fn step(&self, pool: &PgPool) -> Option<Duration> {
        if self.latest.receiver_count() == 0 {
            return None;
        }
        match self.publish(pool).await {
            Ok(()) => Some(POLL),
            Err(error) => {
                tracing::warn!(%error, "the catalog cannot be followed now");
                Some(RETRY)
            }
        }
    }

    async fn publish(&self, pool: &PgPool) -> Result<(), ApiError> {
        let revision = store::revision(pool).await?;
        let known = self.latest.borrow().as_ref().map(|snapshot| snapshot.revision);
        if known != Some(revision) {
            let snapshot = store::load(pool).await?.snapshot();
            self.latest.send_replace(Some(Arc::new(snapshot)));
        }
        Ok(())
    }
}

async fn until(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
