//! The removal of closed subjects' accounts at the provider. Closing commits that it is due; the provider is asked then and,
//! until it has answered, again and again. A removal that a crash forgot is done anew: the provider has no such account then.

mod store;

use std::time::Duration;

use contract::Subject;
use serde_json::json;
use service::workers::{Next, Pace, Step};
use service::{ApiError, AuditEvent};
use sqlx::PgExecutor;

use crate::App;

/// Actor of the audit rows.
const ACTOR: &str = "system:account-removal";
/// How often the provider is asked for what is due.
const INTERVAL: Duration = Duration::from_mins(1);
/// Accounts that are asked for in one step.
const PORTION: i64 = 100;

/// Asks the provider for what is due until the service stops.
pub(crate) fn start(app: &App) {
    let pace = Pace::every(INTERVAL).dropped_at_stop();
    app.core.workers.every(
        "account_removal",
        pace,
        Removals { app: app.for_workers(), after: String::new() },
    );
}

/// Asks the provider for everything that is due.
///
/// # Errors
/// The provider or the database did not answer for one of them; the others are settled.
pub async fn once(app: &App) -> Result<(), ApiError> {
    let mut removals = Removals { app: app.clone(), after: String::new() };
    while removals.portion().await? {}
    Ok(())
}

/// Portions of the subjects whose removal is due, in their order, again and again: one that the provider refuses for long does
/// not keep the others waiting.
struct Removals {
    app: App,
    after: String,
}

impl Step for Removals {
    type Error = ApiError;

    async fn step(&mut self) -> Result<Next, ApiError> {
        Ok(if self.portion().await? { Next::In(Duration::ZERO) } else { Next::Interval })
    }
}

impl Removals {
    /// The next portion; false at the end, after which the first one comes again.
    async fn portion(&mut self) -> Result<bool, ApiError> {
        let due = store::due_after(&self.app.core.pool, &self.after, PORTION).await?;
        self.after = due.last().cloned().unwrap_or_default();
        let more = !due.is_empty();
        let mut failed = None;
        for subject in due {
            if let Err(error) = remove(&self.app, &subject).await {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(more), Err)
    }
}

/// Asks the provider once; a failure is logged, and what is due is done later.
///
/// # Errors
/// The database cannot answer.
pub(crate) async fn try_now(app: &App, subject: &Subject) -> Result<(), ApiError> {
    if !is_due(&app.core.pool, subject).await? {
        return Ok(());
    }
    if let Err(error) = remove(app, subject.as_str()).await {
        tracing::warn!(%subject, %error, "the account of a closed subject is not removed yet; it is tried again");
    }
    Ok(())
}

/// Whether the account of this subject is to be removed.
pub(crate) async fn is_due(db: impl PgExecutor<'_>, subject: &Subject) -> sqlx::Result<bool> {
    store::is_due(db, subject.as_str()).await
}

async fn remove(app: &App, subject: &str) -> Result<(), ApiError> {
    app.provider.remove_account(subject).await?;
    let mut tx = app.core.begin_as(ACTOR, None).await?;
    if store::settle(tx.conn(), subject).await? {
        tx.commit(&event(subject, "user.account_removed")).await
    } else {
        // Another process was first.
        tx.unchanged().await
    }
}

/// The audit row of a step of the removal.
pub(crate) fn event(subject: impl std::fmt::Display, action: &'static str) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("user:{subject}"), payload: json!({}) }
}
