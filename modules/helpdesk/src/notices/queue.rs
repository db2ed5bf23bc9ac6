//! The queue of notices: how one is posted, and how the result is recorded. A notice is posted at least once;
//! notification publishes it once, by its id.

use std::time::Duration;

use contract::id::CompanyId;
use contract::{CorrelationId, Subject};
use serde_json::json;
use service::clients::notification::{Event, NotificationClient, Posted};
use service::workers::{
    Ask, Broken, Claimed, Ended, JobTable, Kept, Ladder, Leased, Queue, QueueConfig, Settlement, Verdict,
    Wake, Worked,
};
use service::{ApiError, Core, SystemPermit};
use uuid::Uuid;

use super::rules::CHANNEL;
use super::store;
use crate::KEY;

const TABLE: JobTable = JobTable { table: "helpdesk.notices", key: "company_id", company: "company_id" };
/// The only group: every process of the module posts every notice.
const GROUP: &str = "default";
/// The worker's name in audit rows.
const WORKER: &str = "notices";
/// Notices that one process posts at a time, in total and per company: a post is short and needs nothing but a
/// connection.
const SLOTS: usize = 8;
const SLOTS_PER_COMPANY: usize = 2;
/// How long a worker holds the lease of a notice; a post takes a second at most.
const LEASE: Duration = Duration::from_secs(20);
/// How often the queue looks for due notices without a wake-up.
const POLL: Duration = Duration::from_secs(2);
/// How often expired settled notices are deleted.
const SWEEP_EVERY: Duration = Duration::from_hours(1);
/// How long settled notices are kept.
const KEPT: Kept = Kept { done_days: 7, dead_days: 30 };
/// Seconds before each attempt; together about a day, after which a notice is of no use.
const LADDER_SECONDS: [u64; 9] = [0, 2, 10, 60, 300, 1_800, 7_200, 21_600, 43_200];

/// Starts the queue and the sweep of settled notices.
pub(crate) fn start(core: &Core, client: &NotificationClient) -> Wake {
    let pool = core.workers.pool().clone();
    core.workers.every("notices_retention", SWEEP_EVERY, move || {
        let pool = pool.clone();
        async move { TABLE.sweep(&pool, KEPT).await.map(drop) }
    });
    let config = QueueConfig {
        name: "notices",
        slots: SLOTS,
        slots_per_key: SLOTS_PER_COMPANY,
        lease: LEASE,
        poll: POLL,
        ladder: ladder(),
    };
    core.workers.queue(config, Notices { core: core.for_workers(), client: client.clone() })
}

#[expect(clippy::expect_used, reason = "nine delays are within the limits of a ladder")]
fn ladder() -> Ladder {
    Ladder::new(&LADDER_SECONDS.map(Duration::from_secs)).expect("1 to 100 delays")
}

struct Notices {
    core: Core,
    client: NotificationClient,
}

/// The columns of a notice that an attempt needs.
#[derive(sqlx::FromRow)]
struct Job {
    company_id: Uuid,
    subject: String,
    event_type: String,
    subject_line: String,
    body: String,
    correlation_id: Option<String>,
}

impl Queue for Notices {
    type Job = Job;
    /// Why the notice was not accepted, if it was not.
    type Report = Option<String>;
    type Error = ApiError;

    async fn make_ready(&self) -> sqlx::Result<bool> {
        TABLE.make_ready(&self.core.pool, GROUP).await
    }

    async fn claim(&self, ask: Ask) -> sqlx::Result<Claimed<Job>> {
        TABLE.claim(&self.core.pool, GROUP, ask).await
    }

    async fn work(&self, job: &Leased<Job>) -> Worked<Option<String>> {
        let (id, job) = (job.lease.id.to_string(), &job.job);
        let Some(subject) = Subject::parse(&job.subject) else {
            return Worked { verdict: Verdict::Dead, report: Some("no subject".to_owned()) };
        };
        let event = Event {
            company_id: CompanyId::from(job.company_id),
            source_module: KEY,
            event_type: &job.event_type,
            channel_key: CHANNEL,
            subject_line: &job.subject_line,
            body: &job.body,
            dedupe_key: &id,
        };
        let correlation = CorrelationId::accept(job.correlation_id.as_deref().map(str::as_bytes));
        match self.client.post_for(&subject, &event, &correlation).await {
            Posted::Taken => Worked { verdict: Verdict::Done, report: None },
            Posted::Refused(status) => {
                Worked { verdict: Verdict::Dead, report: Some(format!("refused with {status}")) }
            }
            Posted::Unanswered(reason) => {
                Worked { verdict: Verdict::Retry { asked: None }, report: Some(reason) }
            }
        }
    }

    async fn settle(&self, job: &Leased<Job>, ended: &Ended<Option<String>>) -> Result<bool, ApiError> {
        let permit = SystemPermit::of(WORKER, CompanyId::from(job.job.company_id));
        let mut tx = permit.begin(&self.core).await?;
        if !TABLE.settle(tx.conn(), &job.lease, ended.settlement).await? {
            tx.unchanged().await?;
            return Ok(false);
        }
        let id = job.lease.id;
        if ended.settlement == Settlement::Dead {
            let why = match &ended.report {
                Ok(why) => why.as_deref().unwrap_or_default(),
                Err(broken) => Broken::as_str(*broken),
            };
            tracing::warn!(%id, why, "giving up on a notice");
            store::explain(&mut tx, id, why).await?;
            let told = json!({ "eventType": job.job.event_type, "reason": why });
            tx.record("notice.dead", format!("notice:{id}"), told).await?;
        }
        tx.commit_recorded().await?;
        Ok(true)
    }

    async fn oldest(&self) -> sqlx::Result<Duration> {
        TABLE.oldest(&self.core.pool, GROUP).await
    }
}
