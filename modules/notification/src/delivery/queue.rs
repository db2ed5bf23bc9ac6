//! The outbox as a queue: how a job is attempted, and how the result is recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contract::id::CompanyId;
use serde_json::json;
use service::clients::authz::AuthzClient;
use service::clients::org::OrgClient;
use service::outbound::OutboundClient;
use service::sealed::Secret;
use service::workers::{
    Ask, Attempted, Broken, Claimed, Ended, JobTable, Lease, Leased, Queue, Settlement, Worked,
};
use service::{ApiError, CompanyTx, Core};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use super::DeliveryId;
use super::in_use::{Use, Uses};
use super::mail::Mailer;
use super::meter::Meter;
use super::outcome::{
    self, AUTHZ_UNAVAILABLE, CHANNEL_DELETED, CHANNEL_DISABLED, MEMBER_LEFT, NOT_IN_USE, Outcome,
    UNSUBSCRIBED,
};
use super::recipient::{Recipients, Unknown};
use super::store::{self, AttemptRow, ChannelState};
use super::webhook::Attempt;
use crate::app::{Outbox, system};
use crate::channels::rules::ChannelId;
use crate::health;
use crate::messages::rules::MailPayload;
use crate::secrets::rules::Sealer;
use crate::secrets::store::{ForAttempt, Kept, for_attempts};

pub(super) const TABLE: JobTable =
    JobTable { table: "notification.delivery_jobs", key: "channel_id", company: "company_id" };

/// How long a job of a disabled channel waits before the channel is checked again; enabling the channel makes the job
/// due at once.
const DISABLED_PAUSE: Duration = Duration::from_hours(1);
/// How long a job waits before authz is asked again whether its company uses the module; nothing tells the worker when
/// that changes. A long backlog is claimed and settled once in this time.
const NOT_IN_USE_PAUSE: Duration = Duration::from_mins(5);
/// The same while authz does not answer.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(30);
/// The outcome of a successful attempt.
const SUCCESS: &str = "success";

/// The queue of deliveries.
pub(super) struct Deliveries {
    pub(super) core: Core,
    pub(super) org: OrgClient,
    pub(super) authz: AuthzClient,
    pub(super) uses: Uses,
    pub(super) outbox: Outbox,
    pub(super) outbound: OutboundClient,
    pub(super) sealer: Sealer,
    pub(super) mailer: Option<Mailer>,
    pub(super) meter: Meter,
}

/// The columns of a job that an attempt needs.
#[derive(sqlx::FromRow)]
pub(super) struct Job {
    company_id: Uuid,
    kind: String,
    target: String,
    payload: String,
    /// Read after the claim; `None` if that failed.
    #[sqlx(skip)]
    channel: Option<ForAttempt>,
}

impl Job {
    fn company(&self) -> CompanyId {
        self.company_id.into()
    }

    fn is_webhook(&self) -> bool {
        self.kind == "webhook"
    }
}

/// What an attempt reports.
pub(super) struct Report {
    status: Option<u16>,
    class: Option<&'static str>,
    started_at: OffsetDateTime,
    took: Duration,
}

impl Queue for Deliveries {
    type Job = Job;
    type Report = Report;
    type Error = ApiError;

    async fn make_ready(&self) -> sqlx::Result<bool> {
        TABLE.make_ready(&self.core.pool, &self.outbox.group).await
    }

    async fn claim(&self, ask: Ask) -> sqlx::Result<Claimed<Job>> {
        let mut claimed: Claimed<Job> = TABLE.claim(&self.core.pool, &self.outbox.group, ask).await?;
        self.look_up(&mut claimed.jobs).await;
        Ok(claimed)
    }

    async fn work(&self, job: &Leased<Job>) -> Worked<Report> {
        let (started_at, begun) = (self.core.clock.now(), Instant::now());
        let Outcome { verdict, status, class } = self.attempt(&job.lease, &job.job).await;
        let report = Report { status, class, started_at, took: begun.elapsed() };
        Worked { verdict, report }
    }

    async fn settle(&self, job: &Leased<Job>, ended: &Ended<Report>) -> Result<bool, ApiError> {
        let channel = ChannelId::from(job.lease.key);
        let mut tx = system(job.job.company()).begin(&self.core).await?;
        let is_again = matches!(ended.settlement, Settlement::Again { .. } | Settlement::Postponed { .. });
        let state = if is_again { Some(store::channel_state(&mut tx, channel).await?) } else { None };
        let is_deleted = state.is_some_and(|state| state.is_deleted);
        let class = ended.report.as_ref().ok().and_then(|report| report.class);
        let stored = match (ended.settlement, state) {
            (_, Some(ChannelState { is_deleted: true, .. })) => Settlement::Dead,
            // It was enabled after the job was claimed, so nothing else would make the job due.
            (Settlement::Postponed { .. }, Some(ChannelState { is_disabled: false, .. }))
                if class == Some(CHANNEL_DISABLED) =>
            {
                Settlement::Postponed { after: Duration::ZERO }
            }
            (settlement, _) => settlement,
        };
        if !TABLE.settle(tx.conn(), &job.lease, stored).await? {
            tx.unchanged().await?;
            return Ok(false);
        }
        let outcome = self.keep(&mut tx, job, ended, is_deleted).await?;
        tx.commit_recorded().await?;
        if let Some(outcome) = outcome {
            self.meter.settled(&job.job.kind, outcome);
        }
        Ok(true)
    }

    async fn settle_done(&self, done: &[Arc<Attempted<Job, Report>>]) -> Result<Option<Vec<Uuid>>, ApiError> {
        let now = self.core.clock.now();
        let rows: Vec<_> =
            done.iter().map(|one| (one.job.lease, row(&one.job.lease, &one.ended, now))).collect();
        let stored = store::settle_done(&self.core.pool, &rows).await?;
        for one in done.iter().filter(|one| stored.contains(&one.job.lease.id)) {
            self.meter.settled(&one.job.job.kind, SUCCESS);
        }
        Ok(Some(stored))
    }

    async fn oldest(&self) -> sqlx::Result<Duration> {
        TABLE.oldest(&self.core.pool, &self.outbox.group).await
    }
}

impl Deliveries {
    /// Reads the channels of claimed jobs. Jobs whose channel cannot be read are retried later.
    async fn look_up(&self, jobs: &mut [Leased<Job>]) {
        let mut ids: Vec<Uuid> = jobs.iter().map(|job| job.lease.key).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return;
        }
        let channels: HashMap<_, _> = match for_attempts(&self.core.pool, &ids).await {
            Ok(channels) => channels.into_iter().collect(),
            Err(error) => {
                tracing::warn!(%error, "cannot read the channels of deliveries");
                return;
            }
        };
        for job in jobs {
            job.job.channel = channels.get(&ChannelId::from(job.lease.key)).cloned();
        }
    }

    async fn attempt(&self, lease: &Lease, job: &Job) -> Outcome {
        match &job.channel {
            None => Outcome::again(None, outcome::INTERNAL),
            Some(channel) if channel.is_deleted => Outcome::dead(None, CHANNEL_DELETED),
            Some(channel) if channel.is_disabled => Outcome::later(DISABLED_PAUSE, CHANNEL_DISABLED),
            Some(channel) if job.is_webhook() => match self.not_in_use(job).await {
                Some(waits) => waits,
                None => self.webhook(lease, job, &channel.kept).await,
            },
            Some(_) => self.mail(lease, job).await,
        }
    }

    /// The outcome of a delivery whose company does not use the module, or of which that is unknown.
    async fn not_in_use(&self, job: &Job) -> Option<Outcome> {
        match self.uses.of(job.company()).await {
            Use::Yes => None,
            Use::No => Some(Outcome::later(NOT_IN_USE_PAUSE, NOT_IN_USE)),
            Use::Unknown => Some(Outcome::later(UNKNOWN_PAUSE, AUTHZ_UNAVAILABLE)),
        }
    }

    async fn webhook(&self, lease: &Lease, job: &Job, kept: &Kept) -> Outcome {
        let now = self.core.clock.now();
        let Some(secrets) = self.secrets(job.company(), lease.key.into(), kept) else {
            return Outcome::again(None, outcome::SECRET_UNAVAILABLE);
        };
        let attempt = Attempt {
            company: job.company(),
            id: DeliveryId::from(lease.id),
            timestamp: now.unix_timestamp(),
            target: &job.target,
            body: &job.payload,
            secrets: &secrets,
        };
        let sent = attempt.send(&self.outbound).await;
        if let Err(error) = &sent {
            tracing::debug!(id = %lease.id, detail = error.detail(), "webhook request failed");
        }
        outcome::of_webhook(sent.as_ref(), self.core.clock.now())
    }

    /// The secrets that sign: the channel's own, and the previous one during a rotation. `None` without its own.
    fn secrets(&self, company: CompanyId, channel: ChannelId, kept: &Kept) -> Option<Vec<Secret>> {
        let Some(own) = &kept.secret else {
            tracing::error!(%channel, "a webhook has no signing secret; its deliveries are retried");
            return None;
        };
        let open = |sealed| self.sealer.open(company, channel, sealed);
        let own = open(own).inspect_err(|error| {
            tracing::error!(%channel, %error, "cannot open a signing secret; its deliveries are retried");
        });
        let mut secrets = vec![own.ok()?];
        let is_present = kept.previous_expires_at.is_some_and(|until| until > self.core.clock.now());
        if let Some(previous) = kept.previous.as_ref().filter(|_| is_present) {
            match open(previous) {
                Ok(previous) => secrets.push(previous),
                Err(error) => {
                    tracing::warn!(%channel, %error, "cannot open a previous signing secret; it does not sign");
                }
            }
        }
        Some(secrets)
    }

    async fn mail(&self, lease: &Lease, job: &Job) -> Outcome {
        let mut permit = None;
        if let Some(mailer) = &self.mailer {
            match mailer.permit(job.company()).await {
                Ok(own) => permit = Some((mailer, own)),
                Err(busy) => return busy,
            }
        }
        // Asked after the wait for a connection, since the answers may have changed meanwhile.
        if let Some(waits) = self.not_in_use(job).await {
            return waits;
        }
        if let Some(unsent) = self.without_recipient(lease, job).await {
            return unsent;
        }
        let Some((mailer, permit)) = permit else {
            return Outcome::again(None, outcome::SMTP_NOT_CONFIGURED);
        };
        match serde_json::from_str::<MailPayload>(&job.payload) {
            Ok(payload) => mailer.send(&permit, DeliveryId::from(lease.id), &job.target, &payload).await,
            Err(error) => {
                tracing::error!(id = %lease.id, %error, "cannot parse a stored mail");
                Outcome::dead(None, outcome::INTERNAL)
            }
        }
    }

    /// The outcome of a mail that has no recipient any more, or of which that is unknown.
    async fn without_recipient(&self, lease: &Lease, job: &Job) -> Option<Outcome> {
        let recipients = Recipients { pool: &self.core.pool, org: &self.org, authz: &self.authz };
        match recipients.gone(job.company(), lease.key.into(), &job.target).await {
            Ok(why) => why.map(|why| Outcome::dead(None, why)),
            Err(Unknown { class, error }) => {
                tracing::warn!(id = %lease.id, ?error, "cannot determine whether a mail has a recipient");
                Some(Outcome::again(None, class))
            }
        }
    }

    /// Records everything about an attempt except the job's state; returns the outcome to count, if there was an
    /// attempt.
    async fn keep(
        &self,
        tx: &mut CompanyTx,
        job: &Leased<Job>,
        ended: &Ended<Report>,
        is_deleted: bool,
    ) -> Result<Option<&'static str>, ApiError> {
        let (lease, channel) = (&job.lease, ChannelId::from(job.lease.key));
        let row = row(lease, ended, self.core.clock.now());
        let class = if is_deleted { Some(CHANNEL_DELETED) } else { row.class };
        // Without an attempt there is no row and nothing to count.
        let untried = [CHANNEL_DELETED, MEMBER_LEFT, UNSUBSCRIBED];
        let is_postponed = matches!(ended.settlement, Settlement::Postponed { .. });
        let was_tried = !is_postponed && row.class.is_none_or(|class| !untried.contains(&class));
        if was_tried {
            store::keep_attempt(tx, &row).await?;
        }
        if let Some(class) = class.filter(|_| is_deleted || !was_tried) {
            store::explain(tx, lease.id, class).await?;
        }
        if is_deleted || ended.settlement == Settlement::Dead {
            let told = json!({ "reason": class, "status": row.status, "channelId": channel });
            tx.record("delivery.dead", format!("delivery:{}", lease.id), told).await?;
        }
        match ended.settlement {
            Settlement::Done => health::store::succeeded(tx, channel).await?,
            Settlement::Dead if was_tried => self.note_death(tx, channel, row.class).await?,
            Settlement::Dead | Settlement::Again { .. } | Settlement::Postponed { .. } => {}
        }
        Ok(was_tried.then_some(row.outcome))
    }

    async fn note_death(
        &self,
        tx: &mut CompanyTx,
        channel: ChannelId,
        class: Option<&str>,
    ) -> Result<(), ApiError> {
        if class.is_some_and(outcome::is_the_platforms) {
            return Ok(());
        }
        let is_failing = health::store::died(tx, channel).await?;
        let reason = match class {
            Some(outcome::GONE) => Some(health::rules::Disabled::Gone),
            _ => is_failing.then_some(health::rules::Disabled::Failing),
        };
        match reason {
            Some(reason) => health::disable::disable(tx, &self.outbox, channel, reason).await,
            None => Ok(()),
        }
    }
}

/// Builds the row of an attempt. Without a report, the attempt ended with its worker, through a panic or an expired
/// lease.
fn row(lease: &Lease, ended: &Ended<Report>, now: OffsetDateTime) -> AttemptRow {
    let outcome = match ended.settlement {
        Settlement::Done => SUCCESS,
        // A postponed job has no attempt to record.
        Settlement::Again { .. } | Settlement::Postponed { .. } => "retry",
        Settlement::Dead => "dead",
    };
    let (status, class, started_at, took) = match &ended.report {
        Ok(report) => (report.status, report.class, report.started_at, report.took),
        Err(broken) => (None, Some(Broken::as_str(*broken)), now, Duration::ZERO),
    };
    AttemptRow {
        job: lease.id,
        number: i32::try_from(lease.attempt).unwrap_or(i32::MAX),
        outcome,
        status: status.map(i32::from),
        class,
        started_at,
        duration_ms: i32::try_from(took.as_millis()).unwrap_or(i32::MAX),
    }
}
