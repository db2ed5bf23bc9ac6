//! The delivery metrics (module contract, "Metrics"), and how long the oldest pending job is overdue. Jobs are counted
//! periodically in the background, so a scrape never waits for the database.

use prometheus::{Gauge, IntCounterVec, IntGaugeVec, Opts};
use sqlx::PgPool;
use telemetry::Metrics;

use super::store;

const STATES: [&str; 3] = ["pending", "done", "dead"];
const PENDING: &str = "pending";
const KINDS: [&str; 2] = ["email", "webhook"];
const OUTCOMES: [&str; 3] = ["success", "retry", "dead"];

/// Counts deliveries. Cheap to clone.
#[derive(Clone)]
pub struct Meter {
    jobs: IntGaugeVec,
    attempts: IntCounterVec,
    overdue: Gauge,
}

impl Meter {
    /// Registers the metrics. Every series exists from the start, so that rates include the first event.
    ///
    /// # Errors
    /// A metric is already registered.
    pub fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let jobs = Opts::new("platform_delivery_jobs", "Delivery jobs in the worker's claim group.");
        let jobs = metrics.register(IntGaugeVec::new(jobs, &["state"])?)?;
        let attempts = Opts::new("platform_delivery_attempts_total", "Settled delivery attempts.");
        let attempts = metrics.register(IntCounterVec::new(attempts, &["kind", "outcome"])?)?;
        let overdue = metrics.register(Gauge::new(
            "platform_delivery_oldest_pending_seconds",
            "How long the oldest pending delivery job waits past its time.",
        )?)?;
        for state in STATES {
            jobs.with_label_values(&[state]).set(0);
        }
        for kind in KINDS {
            for outcome in OUTCOMES {
                attempts.with_label_values(&[kind, outcome]).inc_by(0);
            }
        }
        Ok(Self { jobs, attempts, overdue })
    }

    /// Counts an attempt whose outcome is stored.
    pub(super) fn settled(&self, kind: &str, outcome: &str) {
        self.attempts.with_label_values(&[kind, outcome]).inc();
    }

    /// Counts the jobs of a group once. If the database does not answer, the figures stay as they were.
    ///
    /// # Errors
    /// The database does not answer.
    pub(super) async fn count(&self, pool: &PgPool, group: &str) -> sqlx::Result<()> {
        let counts = store::count(pool, group).await?;
        let of = |state: &str| counts.iter().find(|count| count.state == state);
        for state in STATES {
            self.jobs.with_label_values(&[state]).set(of(state).map_or(0, |count| count.jobs));
        }
        self.overdue.set(of(PENDING).map_or(0.0, |count| count.overdue_seconds));
        Ok(())
    }
}
