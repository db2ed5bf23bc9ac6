//! The outbox as a queue: what one attempt of a job does, and what its settlement writes.

use std::time::Duration;

use contract::id::CompanyId;
use serde_json::json;
use service::outbound::OutboundClient;
use service::workers::{Ask, Broken, Claimed, Ended, JobTable, Lease, Leased, Queue, Settlement, Worked};
use service::{ApiError, CompanyTx, Core};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use super::DeliveryId;
use super::mail::Mailer;
use super::meter::Meter;
use super::outcome::{self, Outcome};
use super::store::{self, AttemptRow};
use super::webhook::Attempt;
use crate::app::{Outbox, system};
use crate::channels::rules::ChannelId;
use crate::health;
use crate::messages::rules::MailPayload;
use crate::secrets::rules::Sealer;
use crate::secrets::store::{Kept, for_attempt};

/// A channel that is gone takes its jobs with it.
const CHANNEL_DELETED: &str = "channel_deleted";
const TABLE: JobTable = JobTable { table: "notification.delivery_jobs", key: "channel_id" };

/// The queue.
pub(super) struct Deliveries {
    pub(super) core: Core,
    pub(super) outbox: Outbox,
    pub(super) outbound: OutboundClient,
    pub(super) sealer: Sealer,
    pub(super) mailer: Option<Mailer>,
    pub(super) meter: Meter,
}

/// What an attempt needs to know of a job.
#[derive(sqlx::FromRow)]
pub(super) struct Job {
    company_id: Uuid,
    kind: String,
    target: String,
    payload: String,
}

impl Job {
    fn company(&self) -> CompanyId {
        self.company_id.into()
    }

    fn is_webhook(&self) -> bool {
        self.kind == "webhook"
    }
}

/// What an attempt leaves behind.
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

    async fn claim(&self, ask: &Ask) -> sqlx::Result<Claimed<Job>> {
        TABLE.claim(&self.core.pool, &self.outbox.group, ask).await
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
        let is_again = matches!(ended.settlement, Settlement::Again { .. });
        let is_deleted = is_again && store::is_deleted(&mut tx, channel).await?;
        let stored = if is_deleted { Settlement::Dead } else { ended.settlement };
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

    async fn oldest(&self) -> sqlx::Result<Duration> {
        TABLE.oldest(&self.core.pool, &self.outbox.group).await
    }
}

impl Deliveries {
    async fn attempt(&self, lease: &Lease, job: &Job) -> Outcome {
        let channel = ChannelId::from(lease.key);
        let kept = match for_attempt(&self.core.pool, job.company(), channel).await {
            Ok(Some((false, kept))) => kept,
            Ok(_) => return Outcome::dead(None, CHANNEL_DELETED),
            Err(error) => {
                tracing::warn!(id = %lease.id, %error, "a delivery's channel cannot be read");
                return Outcome::again(None, outcome::INTERNAL);
            }
        };
        if job.is_webhook() { self.webhook(lease, job, kept).await } else { self.mail(lease, job).await }
    }

    async fn webhook(&self, lease: &Lease, job: &Job, kept: Kept) -> Outcome {
        let now = self.core.clock.now();
        let present = kept.previous.filter(|_| kept.previous_expires_at.is_some_and(|until| until > now));
        let channel = ChannelId::from(lease.key);
        let mut secrets = Vec::new();
        for sealed in kept.secret.into_iter().chain(present) {
            match self.sealer.open(job.company(), channel, &sealed) {
                Ok(secret) => secrets.push(secret),
                Err(error) => {
                    tracing::error!(%channel, %error, "a signing secret cannot be opened; its deliveries wait");
                    return Outcome::again(None, outcome::SECRET_UNAVAILABLE);
                }
            }
        }
        if secrets.is_empty() {
            tracing::error!(%channel, "a webhook without a signing secret; its deliveries wait");
            return Outcome::again(None, outcome::SECRET_UNAVAILABLE);
        }
        let attempt = Attempt {
            id: DeliveryId::from(lease.id),
            timestamp: now.unix_timestamp(),
            target: &job.target,
            body: &job.payload,
            secrets: &secrets,
        };
        let sent = attempt.send(&self.outbound).await;
        if let Err(error) = &sent {
            tracing::debug!(id = %lease.id, detail = error.detail(), "a webhook did not arrive");
        }
        outcome::of_webhook(sent.as_ref(), self.core.clock.now())
    }

    async fn mail(&self, lease: &Lease, job: &Job) -> Outcome {
        let Some(mailer) = &self.mailer else { return Outcome::again(None, outcome::SMTP_NOT_CONFIGURED) };
        match serde_json::from_str::<MailPayload>(&job.payload) {
            Ok(payload) => mailer.send(DeliveryId::from(lease.id), &job.target, &payload).await,
            Err(error) => {
                tracing::error!(id = %lease.id, %error, "a mail that was kept cannot be read");
                Outcome::dead(None, outcome::INTERNAL)
            }
        }
    }

    /// Keeps what happened beside the job itself; gives the outcome to count, where there was an attempt.
    async fn keep(
        &self,
        tx: &mut CompanyTx,
        job: &Leased<Job>,
        ended: &Ended<Report>,
        is_deleted: bool,
    ) -> Result<Option<&'static str>, ApiError> {
        let (lease, channel) = (&job.lease, ChannelId::from(job.lease.key));
        let row = row(lease, ended, self.core.clock.now());
        // Without an attempt there is no row and nothing to count.
        let was_tried = row.class != Some(CHANNEL_DELETED);
        if was_tried {
            store::keep_attempt(tx, &row).await?;
        }
        if is_deleted || !was_tried {
            store::explain(tx, lease.id, CHANNEL_DELETED).await?;
        }
        let class = if is_deleted { Some(CHANNEL_DELETED) } else { row.class };
        if is_deleted || ended.settlement == Settlement::Dead {
            let told = json!({ "reason": class, "status": row.status, "channelId": channel });
            tx.record("delivery.dead", format!("delivery:{}", lease.id), told).await?;
        }
        match ended.settlement {
            Settlement::Done => health::store::succeeded(tx, channel).await?,
            Settlement::Dead if was_tried => self.note_death(tx, channel, row.class).await?,
            Settlement::Dead | Settlement::Again { .. } => {}
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

/// The attempt as it is kept. One that has no report ended with its worker, by a panic, or by its lease's time.
fn row(lease: &Lease, ended: &Ended<Report>, now: OffsetDateTime) -> AttemptRow {
    let outcome = match ended.settlement {
        Settlement::Done => "success",
        Settlement::Again { .. } => "retry",
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
