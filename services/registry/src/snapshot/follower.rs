//! A worker in each process that detects changes of the catalog, by this and other registry processes, and publishes
//! them to the streams. It does not read the database while no stream is open.

use std::sync::Arc;
use std::time::Duration;

use service::workers::{Next, Pace};
use service::{ApiError, Core};
use tokio::sync::{Notify, watch};

use crate::catalog::{Current, Published};

/// Maximum delay until another process's change is detected: half of the 100 ms that the gateway promises.
const POLL: Duration = Duration::from_millis(50);
/// Delay before a retry while the database does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// The newest published catalog; `None` before the first.
pub(crate) type Latest = Option<Arc<Published>>;

/// Publishes the worker's catalogs to the streams. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    latest: watch::Sender<Latest>,
    hint: Arc<Notify>,
}

impl Default for Follower {
    fn default() -> Self {
        Self { latest: watch::Sender::new(None), hint: Arc::new(Notify::new()) }
    }
}

impl Follower {
    /// Starts the worker, which runs until the service stops.
    pub(crate) fn start(&self, core: &Core, catalog: &Current) {
        let (follower, catalog) = (self.clone(), catalog.clone());
        let pace = Pace::every(POLL).retrying(RETRY, RETRY).woken_by(Arc::clone(&self.hint));
        core.workers.every("catalog_follower", pace, move || {
            let (follower, catalog) = (follower.clone(), catalog.clone());
            async move { follower.step(&catalog).await }
        });
    }

    /// Wakes the worker after a commit, so that it does not wait for the next poll.
    pub(crate) fn look(&self) {
        self.hint.notify_one();
    }

    /// Subscribes a stream and wakes the worker.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Latest> {
        let receiver = self.latest.subscribe();
        self.look();
        receiver
    }

    /// Reads the catalog and publishes it if it has changed. Without a stream, the worker sleeps until it is woken.
    async fn step(&self, catalog: &Current) -> Result<Next, ApiError> {
        if self.latest.receiver_count() == 0 {
            return Ok(Next::Woken);
        }
        let now = catalog.get().await?;
        self.latest.send_if_modified(|latest| {
            let is_new = latest.as_ref().is_none_or(|known| known.catalog.edition != now.catalog.edition);
            if is_new {
                *latest = Some(now);
            }
            is_new
        });
        Ok(Next::Interval)
    }
}
