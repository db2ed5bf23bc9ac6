//! Ensures the default grants of all enabled modules and apps in portions, once after each start, in the background.
//! This repairs companies that were restored or whose anchors were removed.

use std::time::Duration;

use service::ApiError;
use service::workers::{Next, Pace, Step};
use uuid::Uuid;

use super::{ACTOR, CATALOG_GRANTS, store};
use crate::App;
use crate::default_grants::Portion;

/// Pause between two portions, so that the sweep takes only a small part of the database's time.
const PAUSE: Duration = Duration::from_millis(50);
/// First and longest delay before a retry after a failure.
const RETRIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The progress of the sweep.
pub(super) struct Sweep {
    app: App,
    after: Uuid,
}

impl Sweep {
    /// Creates a sweep that begins at the first company.
    pub(super) fn of(app: &App) -> Self {
        Self { app: app.clone(), after: Uuid::nil() }
    }
}

/// Starts the sweep in the background.
pub(super) fn start(sweep: Sweep) {
    let workers = sweep.app.core.workers.clone();
    workers.every("default_grants", Pace::every(PAUSE).retrying(RETRIES.0, RETRIES.1), sweep);
}

impl Step for Sweep {
    type Error = ApiError;

    async fn step(&mut self) -> Result<Next, ApiError> {
        let mut tx = self.app.core.begin_as(ACTOR, None).await?;
        let portion = Portion::after(tx.conn(), self.after).await?;
        let keys = store::enabled_keys(tx.conn()).await?;
        let written = portion.ensure(tx.conn(), &keys).await?;
        if written.is_nothing() {
            tx.unchanged().await?;
        } else {
            written.record(&mut tx, CATALOG_GRANTS.to_owned()).await?;
            tx.commit_recorded().await?;
        }
        self.after = portion.end().unwrap_or(self.after);
        Ok(if portion.is_last { Next::Done } else { Next::Interval })
    }
}
