//! Enabling where there are many companies: their default grants are written portion by portion, each in a transaction of its
//! own, and the module is enabled when all have theirs. Until then it is disabled everywhere, so no company is ever enabled
//! without its grants. A portion that was written stays written: another process, or the next start, goes on after it.
//!
//! What begins it holds the lock of the default grants, and from then on org grants a company that is made or activated what
//! is being enabled, too (the view `registry.granted_modules`). So the portions need no lock, and nothing has to be looked
//! through again in the end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use service::workers::{Next, Pace};
use service::{ApiError, AuditedTx};
use tokio::sync::Notify;

use super::rules::{Enabling, Standing};
use super::{event, store};
use crate::App;
use crate::catalog::store::{bump, lock};
use crate::default_grants::{self, Portion};

/// How late a process goes on with what another one left.
const POLL: Duration = Duration::from_secs(5);
/// After a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Wakes the worker of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnablingQueue(Arc<Notify>);

impl EnablingQueue {
    /// Says that there is something to enable.
    pub(crate) fn look(&self) {
        self.0.notify_one();
    }
}

/// Writes portions until the service stops.
pub(crate) fn start(app: &App) {
    let aside = app.for_workers();
    let pace = Pace::every(POLL).retrying(RETRY, POLL).woken_by(Arc::clone(&app.enabling.0));
    app.core.workers.every("enabling", pace, move || {
        let app = aside.clone();
        async move { once(&app).await }
    });
}

/// One portion, or the enabling itself after the last one.
async fn once(app: &App) -> Result<Next, ApiError> {
    let Some(enabling) = store::next_enabling(&app.core.pool).await? else { return Ok(Next::Interval) };
    let more = if portion(app, &enabling).await? { true } else { finish(app, &enabling).await? };
    Ok(if more { Next::In(Duration::ZERO) } else { Next::Interval })
}

/// Writes the next portion; false when there is none any more.
async fn portion(app: &App, enabling: &Enabling) -> Result<bool, ApiError> {
    let mut tx = begin(app, enabling).await?;
    let Some(after) = store::claim(tx.conn(), &enabling.key).await? else {
        tx.unchanged().await?;
        return Ok(false);
    };
    let portion = Portion::after(tx.conn(), after).await?;
    let Some(end) = portion.end() else {
        tx.unchanged().await?;
        return Ok(false);
    };
    let written = portion.ensure(tx.conn(), std::slice::from_ref(&enabling.key)).await?;
    store::advance(tx.conn(), &enabling.key, end, portion.len()).await?;
    written.record(&mut tx, format!("module:{}", enabling.key)).await?;
    tx.commit_recorded().await?;
    Ok(true)
}

/// Enables it, unless another process did or it was called off; false when there was nothing to do.
async fn finish(app: &App, enabling: &Enabling) -> Result<bool, ApiError> {
    let mut tx = begin(app, enabling).await?;
    // Grants are judged by a catalog that stays as it is under this lock.
    default_grants::store::lock(tx.conn()).await?;
    lock(tx.conn()).await?;
    let standing = store::find(tx.conn(), &enabling.key).await?.filter(|standing| standing.enabling);
    // Locked by nobody: another process may be at the last portion.
    let after = store::claim(tx.conn(), &enabling.key).await?;
    let (Some(standing), Some(after)) = (standing, after) else {
        tx.unchanged().await?;
        return Ok(false);
    };
    if Portion::after(tx.conn(), after).await?.end().is_some() {
        tx.unchanged().await?;
        return Ok(true);
    }
    let progress = store::progress(tx.conn(), &enabling.key).await?;
    store::set_enabled(tx.conn(), &enabling.key, true).await?;
    bump(tx.conn()).await?;
    let payload = json!({ "enabled": { "from": false, "to": true }, "companies": progress });
    tx.commit(&event(action(&standing), &standing, payload)).await?;
    tracing::info!(key = enabling.key, "enabled in every company");
    app.follower.look();
    Ok(true)
}

const fn action(standing: &Standing) -> &'static str {
    if standing.installed { "module.enabled" } else { "module.installed" }
}

/// In the name of whoever asked.
async fn begin(app: &App, enabling: &Enabling) -> Result<AuditedTx, ApiError> {
    app.core.begin_as(&enabling.requested_by, enabling.correlation_id.as_deref()).await
}
