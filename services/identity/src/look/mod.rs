//! The look at the provider: which of the subjects that are known here are disabled or gone there. One step is
//! [`once`]: ask (`ask.rs`, no transaction open), then store what was found together with the time of the look
//! (`store.rs`, one transaction). A look that could not ask everything changes nothing. [`run`] is the loop.

mod ask;
mod findings;
mod store;

use std::time::Duration;

use serde_json::json;
use service::{ApiError, AuditEvent};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

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

/// Looks at the provider until `stop`.
pub(crate) async fn run(app: App, intervals: Intervals, stop: CancellationToken) {
    let mut progress = Progress::default();
    loop {
        let wait = progress.step(&app, intervals).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
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

/// What the loop remembers between two looks.
#[derive(Default)]
struct Progress {
    last: Option<OffsetDateTime>,
    last_full: Option<Instant>,
    retry: Option<Duration>,
}

impl Progress {
    /// One look, and how long to wait after it.
    async fn step(&mut self, app: &App, intervals: Intervals) -> Duration {
        let (begun, moment) = (Instant::now(), app.core.clock.now());
        let scope = self.scope(intervals.full);
        match once(app, scope).await {
            Ok(changed) => {
                self.succeeded(scope, begun, moment, changed);
                intervals.quick
            }
            Err(error) => self.failed(&error),
        }
    }

    fn scope(&self, full: Duration) -> Scope {
        let is_due = self.last_full.is_none_or(|last| last.elapsed() >= full);
        match self.last {
            Some(last) if !is_due => Scope::Quick { since: last - CLOCK_DIFFERENCE },
            _ => Scope::Full,
        }
    }

    fn succeeded(&mut self, scope: Scope, begun: Instant, moment: OffsetDateTime, changed: usize) {
        if self.last.is_none() || self.retry.is_some() || changed > 0 {
            tracing::info!(changed, "looked at the identity provider");
        }
        self.last = Some(moment);
        self.retry = None;
        if scope == Scope::Full {
            self.last_full = Some(begun);
        }
    }

    /// An outage is logged once, not once a try.
    fn failed(&mut self, error: &ApiError) -> Duration {
        if self.retry.is_none() {
            tracing::warn!(%error, "could not look at the identity provider; decisions stop when this lasts");
        }
        let retry = self.retry.map_or(FIRST_RETRY, |retry| (retry * 2).min(LAST_RETRY));
        self.retry = Some(retry);
        retry
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
