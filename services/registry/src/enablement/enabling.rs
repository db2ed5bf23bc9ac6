//! Enables a module or app when there are many companies: a worker writes the default grants in portions, each in its
//! own transaction, and enables the module once every company has its grants. Until then the module is disabled
//! everywhere, so it is never enabled for a company without grants. Written portions remain: another process, or the
//! next start, resumes after them.
//!
//! The transaction that begins the enabling holds the lock of the default grants. From then on, org also writes the
//! grants of modules being enabled for companies that are created or activated (the view `registry.granted_modules`).
//! So the portions need no lock, and no final pass is needed.

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

/// Maximum delay until another process resumes an interrupted enabling.
const POLL: Duration = Duration::from_secs(5);
/// Delay before the first retry after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// A handle that wakes this process's worker. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnablingQueue(Arc<Notify>);

impl EnablingQueue {
    /// Wakes the worker because there is something to enable.
    pub(crate) fn look(&self) {
        self.0.notify_one();
    }
}

/// Starts the worker, which runs until the service stops.
pub(crate) fn start(app: &App) {
    let aside = app.for_workers();
    let pace = Pace::every(POLL).retrying(RETRY, POLL).woken_by(Arc::clone(&app.enabling.0));
    app.core.workers.every("enabling", pace, move || {
        let app = aside.clone();
        async move { once(&app).await }
    });
}

/// Writes one portion, or enables the module after the last one.
async fn once(app: &App) -> Result<Next, ApiError> {
    let Some(enabling) = store::next_enabling(&app.core.pool).await? else { return Ok(Next::Interval) };
    let more = if portion(app, &enabling).await? { true } else { finish(app, &enabling).await? };
    Ok(if more { Next::In(Duration::ZERO) } else { Next::Interval })
}

/// Writes the next portion; returns false if none is left, or another process is writing one.
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

/// Enables the module, unless another process has or the enabling was cancelled. Returns true if the worker should
/// continue at once.
async fn finish(app: &App, enabling: &Enabling) -> Result<bool, ApiError> {
    let mut tx = begin(app, enabling).await?;
    // Under these locks, the companies and the catalog do not change.
    default_grants::store::lock(tx.conn()).await?;
    lock(tx.conn()).await?;
    let standing = store::find(tx.conn(), &enabling.key).await?.filter(|standing| standing.enabling);
    // `None` if another process is still writing the last portion.
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

/// Begins a transaction in the name of the caller who requested the enabling.
async fn begin(app: &App, enabling: &Enabling) -> Result<AuditedTx, ApiError> {
    app.core.begin_as(&enabling.requested_by, enabling.correlation_id.as_deref()).await
}
