//! The look at the provider: which of the subjects that are known here are disabled or gone there. One step is
//! [`once`]: ask (`ask.rs`, no transaction open), then store what was found together with the time of the look
//! (`store.rs`, one transaction). A look that could not ask everything changes nothing. [`start`] looks again and again.

mod ask;
mod findings;
mod store;

use std::time::Duration;

use serde_json::json;
use service::workers::{Next, Pace, Step};
use service::{ApiError, AuditEvent};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::App;
use findings::Change;

/// Actor of the audit rows.
const ACTOR: &str = "system:idp-look";
/// After a look that failed: first this, doubled up to a second, so that decisions go on within a second of the
/// provider's return.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Deletions are asked for from so long before the last look: the provider's clock is not ours.
const CLOCK_DIFFERENCE: Duration = Duration::from_mins(5);

/// How often the provider is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// Disabled and deleted accounts.
    pub quick: Duration,
    /// All accounts.
    pub full: Duration,
}

/// What one look asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every account.
    Full,
    /// The disabled accounts, and those deleted since this moment.
    Quick {
        /// Start of an earlier complete look.
        since: OffsetDateTime,
    },
}

/// Looks at the provider until the service stops.
pub(crate) fn start(app: &App, intervals: Intervals) {
    // A look waits for the provider, and one that was cut off changes nothing.
    let pace = Pace::every(intervals.quick).retrying(FIRST_RETRY, LAST_RETRY).dropped_at_stop();
    app.core.workers.every(
        "idp_look",
        pace,
        Looks { app: app.for_workers(), intervals, last: None, last_full: None, stored: None },
    );
}

/// One complete look; gives the number of subjects whose state changed.
///
/// # Errors
/// The provider or the database did not answer: nothing was changed, the time of the last look neither.
pub async fn once(app: &App, scope: Scope) -> Result<usize, ApiError> {
    let begun = Instant::now();
    let findings = ask::ask(app, scope).await?;
    let mut tx = app.core.begin_as(ACTOR, None).await?;
    let age_seconds = begun.elapsed().as_secs_f64();
    let changes = store::apply(tx.conn(), &findings, age_seconds).await?;
    for change in &changes {
        tx.record(&event(change)).await?;
    }
    store::stamp(tx.conn(), age_seconds).await?;
    tx.commit_recorded().await?;
    Ok(changes.len())
}

/// Look after look, and what is remembered between two.
struct Looks {
    app: App,
    intervals: Intervals,
    last: Option<OffsetDateTime>,
    last_full: Option<Instant>,
    /// The time that the database had of the last one.
    stored: Option<OffsetDateTime>,
}

impl Step for Looks {
    type Error = ApiError;

    /// Decisions stop when looks fail for too long.
    async fn step(&mut self) -> Result<Next, ApiError> {
        let (begun, moment) = (Instant::now(), self.app.core.clock.now());
        if store::last(&self.app.core.pool).await? < self.stored {
            tracing::warn!(
                "the database was put back to an earlier state; every account is asked about again"
            );
            self.last_full = None;
        }
        let scope = self.scope();
        let changed = once(&self.app, scope).await?;
        self.stored = store::last(&self.app.core.pool).await?;
        if self.last.is_none() || changed > 0 {
            tracing::info!(changed, "looked at the identity provider");
        }
        self.last = Some(moment);
        if scope == Scope::Full {
            self.last_full = Some(begun);
        }
        Ok(Next::Interval)
    }
}

impl Looks {
    fn scope(&self) -> Scope {
        let is_due = self.last_full.is_none_or(|last| last.elapsed() >= self.intervals.full);
        match self.last {
            Some(last) if !is_due => Scope::Quick { since: last - CLOCK_DIFFERENCE },
            _ => Scope::Full,
        }
    }
}

fn event(change: &Change) -> AuditEvent {
    AuditEvent {
        company: None,
        action: "user.idp_state_changed",
        subject: format!("user:{}", change.subject),
        payload: json!({
            "account": { "from": change.before, "to": change.after },
            "idpEnabled": { "from": change.before.is_enabled(), "to": change.after.is_enabled() },
        }),
    }
}
