//! One loop a process that notices changes of the catalog, its own and those of other registry processes, and publishes
//! each as a snapshot. It reads nothing while no stream is open.

use std::sync::Arc;
use std::time::Duration;

use service::workers::{Next, Pace};
use service::{ApiError, Core};
use tokio::sync::{Notify, watch};

use crate::catalog::{Current, Published};

/// How late another process's change may be seen: half of the 100 ms that edges promise.
const POLL: Duration = Duration::from_millis(50);
/// Between two tries while the database does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// The newest catalog that was noticed; `None` before the first.
pub(crate) type Latest = Option<Arc<Published>>;

/// Gives streams what the loop notices. Cheap to clone.
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
    /// Follows the catalog until the service stops.
    pub(crate) fn start(&self, core: &Core, catalog: &Current) {
        let (follower, catalog) = (self.clone(), catalog.clone());
        let pace = Pace::every(POLL).retrying(RETRY, RETRY).woken_by(Arc::clone(&self.hint));
        core.workers.every("catalog_follower", pace, move || {
            let (follower, catalog) = (follower.clone(), catalog.clone());
            async move { follower.step(&catalog).await }
        });
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

    /// One look. Without a stream the next one waits until somebody asks.
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
