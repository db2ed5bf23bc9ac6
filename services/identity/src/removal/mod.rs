//! Removes the accounts of closed subjects at the provider. Closing commits that the removal is due; the provider is
//! asked at once and then periodically until it succeeds. A removal whose result a crash lost is repeated: the provider
//! then answers that there is no such account.

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
/// Interval of the attempts.
const INTERVAL: Duration = Duration::from_mins(1);
/// Number of accounts per step.
const PORTION: i64 = 100;

/// Starts the worker that asks the provider for all due removals.
pub(crate) fn start(app: &App) {
    let pace = Pace::every(INTERVAL).dropped_at_stop();
    app.core.workers.every(
        "account_removal",
        pace,
        Removals { app: app.for_workers(), after: String::new() },
    );
}

/// Asks the provider for all due removals, once.
///
/// # Errors
/// The provider or the database did not answer for one account; the others are settled.
pub async fn once(app: &App) -> Result<(), ApiError> {
    let mut removals = Removals { app: app.clone(), after: String::new() };
    while removals.portion().await? {}
    Ok(())
}

/// The worker that goes through the due subjects in portions, in order and cyclically, so that one that the provider
/// keeps refusing does not block the others.
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
    /// Runs the next portion. Returns false at the end, after which the first portion follows.
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

/// Asks the provider once. A failure is logged, and the worker retries.
///
/// # Errors
/// The database cannot answer.
pub(crate) async fn try_now(app: &App, subject: &Subject) -> Result<(), ApiError> {
    if !is_due(&app.core.pool, subject).await? {
        return Ok(());
    }
    if let Err(error) = remove(app, subject.as_str()).await {
        tracing::warn!(%subject, %error, "removing the account of a closed subject failed; it will be retried");
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
        // Another process stored the removal first.
        tx.unchanged().await
    }
}

/// The audit row of a step of the removal.
pub(crate) fn event(subject: impl std::fmt::Display, action: &'static str) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("user:{subject}"), payload: json!({}) }
}
