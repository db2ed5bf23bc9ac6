//! Looks at the provider: which of the subjects known here are disabled or gone there. A quick look requests the
//! disabled accounts and those deleted since the last look (`ask.rs`, with no transaction open), then stores its
//! findings in portions, the last together with its time (`store.rs`). If a request fails, it changes nothing. A full look
//! covers all accounts in portions (`full.rs`). [`start`] runs both periodically; an operator's command asks for a look at
//! one account after it has changed it (`http.rs`).

mod ask;
mod findings;
mod full;
pub(crate) mod http;
mod store;

use std::sync::Arc;
use std::time::Duration;

use contract::Subject;
use serde_json::json;
use service::workers::{Next, Pace, Step};
use service::{ApiError, AuditEvent};
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::App;
use findings::{Change, Findings};
use full::{FullLook, FullLooks};

/// Actor of the audit rows.
const ACTOR: &str = "system:idp-look";
/// First pause after a failed look, doubled up to [`LAST_RETRY`], so that decisions resume within a second of the
/// provider's return.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Deletions are requested from this long before the last look, because the provider's clock may differ.
const CLOCK_DIFFERENCE: Duration = Duration::from_mins(5);

/// How long the provider is assumed to keep deletion events. After a longer time without a look, a full look comes
/// first.
const EVENTS_KEPT: Duration = Duration::from_hours(24);

/// Most findings that one transaction stores.
const PORTION: usize = 1_000;

/// The intervals between looks.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// Disabled and deleted accounts.
    pub quick: Duration,
    /// All accounts.
    pub full: Duration,
}

/// The accounts that one look covers.
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
    // A look spends its time waiting for the provider, and an interrupted one changes nothing.
    let pace = |interval| Pace::every(interval).retrying(FIRST_RETRY, LAST_RETRY).dropped_at_stop();
    let all_again = Arc::new(Notify::new());
    let looks = Looks { app: app.for_workers(), stored: None, all_again: Arc::clone(&all_again) };
    app.core.workers.every("idp_look", pace(intervals.quick), looks);
    let full = FullLooks { app: app.for_workers(), interval: intervals.full, under_way: None };
    app.core.workers.every("idp_full_look", pace(intervals.full).woken_by(all_again), full);
}

/// What a complete look did.
#[derive(Clone, Copy, Debug)]
pub struct Looked {
    /// Number of subjects whose state changed.
    pub changed: usize,
    /// Whether accounts stay disabled for which only a full look asks soon.
    any_left: bool,
}

/// Runs one complete look. `seen` is the stored time of the last
/// look, read before this one.
///
/// # Errors
/// The provider or the database did not answer, or the database was restored to an earlier state than `seen` meanwhile. The
/// time of the last look is then unchanged; a quick look to which the provider did not answer has changed nothing.
pub async fn once(app: &App, scope: Scope, seen: Option<OffsetDateTime>) -> Result<Looked, ApiError> {
    match scope {
        Scope::Quick { since } => quick(app, since, seen).await,
        Scope::Full => {
            let mut look = FullLook::begin(seen);
            while !look.advance(app).await? {}
            Ok(Looked { changed: look.changed, any_left: false })
        }
    }
}

async fn quick(app: &App, since: OffsetDateTime, seen: Option<OffsetDateTime>) -> Result<Looked, ApiError> {
    let begun = Instant::now();
    let (findings, any_left) = ask::ask_disabled(app, since).await?;
    let mut portions = findings.portions(PORTION);
    let last = portions.pop().unwrap_or_default();
    let mut changed = 0;
    for portion in portions {
        changed += settle(app, &portion, begun.elapsed(), None).await?;
    }
    let whole = Whole { age: begun.elapsed(), seen };
    changed += settle(app, &last, whole.age, Some(whole)).await?;
    Ok(Looked { changed, any_left })
}

/// Looks at one account.
async fn at(app: &App, subject: &Subject) -> Result<(), ApiError> {
    let (begun, mut findings) = (Instant::now(), Findings::default());
    ask::ask_each(app, vec![subject.to_string()], &mut findings).await?;
    settle(app, &findings, begun.elapsed(), None).await.map(drop)
}

/// A look that the findings complete.
struct Whole {
    /// Time since it began.
    age: Duration,
    /// The stored time of the last look before it began.
    seen: Option<OffsetDateTime>,
}

/// Stores findings that were requested at most `asked` ago and, if they complete a look, its time. A stored time that is
/// earlier than before the look is a restored one. It stays, for [`Looks`] to find.
async fn settle(
    app: &App,
    findings: &Findings,
    asked: Duration,
    look: Option<Whole>,
) -> Result<usize, ApiError> {
    let mut tx = app.core.begin_as(ACTOR, None).await?;
    if let Some(look) = &look
        && store::hold_last(tx.conn()).await? < look.seen
    {
        return Err(ApiError::unavailable("provider_look"));
    }
    let changes = store::apply(tx.conn(), findings, asked.as_secs_f64()).await?;
    let events: Vec<AuditEvent> = changes.iter().map(event).collect();
    tx.record_all(&events).await?;
    if let Some(look) = &look {
        store::stamp(tx.conn(), look.age.as_secs_f64()).await?;
    }
    if changes.is_empty() && look.is_none() {
        tx.unchanged().await?;
    } else {
        tx.commit_recorded().await?;
    }
    Ok(changes.len())
}

/// The worker that runs quick looks.
struct Looks {
    app: App,
    /// The time of the last look as the database stored it.
    stored: Option<OffsetDateTime>,
    /// Wakes the worker of full looks.
    all_again: Arc<Notify>,
}

impl Step for Looks {
    type Error = ApiError;

    /// Runs one quick look. If looks fail for too long, decisions stop.
    async fn step(&mut self) -> Result<Next, ApiError> {
        let pool = &self.app.core.pool;
        let last = store::last(pool).await?;
        if last < self.stored {
            tracing::warn!("the database was restored to an earlier state; a full look follows");
            self.all_again.notify_one();
        }
        let scope = match self.since(last).await? {
            Some(since) => Scope::Quick { since },
            None => Scope::Full,
        };
        let Looked { changed, any_left } = once(&self.app, scope, last).await?;
        if self.stored.is_none() || changed > 0 {
            tracing::info!(changed, "looked at the identity provider");
        }
        if any_left {
            self.all_again.notify_one();
        }
        // A restore since the look shows an earlier time than before it, and is found by the next step.
        self.stored = store::last(&self.app.core.pool).await?.max(last);
        Ok(Next::Interval)
    }
}

impl Looks {
    /// The time from which deletions are requested; `None` if only a full look can tell.
    async fn since(&self, last: Option<OffsetDateTime>) -> Result<Option<OffsetDateTime>, ApiError> {
        let now = self.app.core.clock.now();
        match last {
            Some(last) if now - last <= EVENTS_KEPT => Ok(Some(last.min(now) - CLOCK_DIFFERENCE)),
            None if !store::any(&self.app.core.pool).await? => Ok(Some(OffsetDateTime::UNIX_EPOCH)),
            Some(_) | None => Ok(None),
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
