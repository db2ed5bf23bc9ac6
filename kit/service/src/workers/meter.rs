//! Metrics of workers. Every series exists as soon as its worker does, so that a rate includes the first event.

use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};
use telemetry::Metrics;

const STEPS: [&str; 3] = ["succeeded", "failed", "panicked"];

/// The metric families of workers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Meter {
    steps: IntCounterVec,
    claimed: IntCounterVec,
    settled: IntCounterVec,
    late: IntCounterVec,
    broken: IntCounterVec,
    running: IntGaugeVec,
    oldest: GaugeVec,
}

impl Meter {
    pub(super) fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            metrics.register(IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let running = Opts::new("platform_queue_running_jobs", "Jobs of a queue that this process works on.");
        let oldest = Opts::new(
            "platform_queue_oldest_due_seconds",
            "How long the oldest job that is due and not worked on waits past its time.",
        );
        Ok(Self {
            steps: counter(
                "platform_worker_steps_total",
                "Steps of background loops.",
                &["worker", "outcome"],
            )?,
            claimed: counter("platform_queue_claimed_total", "Jobs taken to be worked on.", &["queue"])?,
            settled: counter(
                "platform_queue_settled_total",
                "Attempts whose outcome is stored: done, retry, dead.",
                &["queue", "outcome"],
            )?,
            late: counter(
                "platform_queue_late_total",
                "Attempts that lost their lease before their outcome was stored; another one follows.",
                &["queue"],
            )?,
            broken: counter(
                "platform_queue_broken_total",
                "Attempts without an outcome of their own: panic, timeout, lease_lost.",
                &["queue", "cause"],
            )?,
            running: metrics.register(IntGaugeVec::new(running, &["queue"])?)?,
            oldest: metrics.register(GaugeVec::new(oldest, &["queue"])?)?,
        })
    }

    /// The step counters of one loop.
    pub(super) fn steps_of(&self, worker: &'static str) -> IntCounterVec {
        for outcome in STEPS {
            self.steps.with_label_values(&[worker, outcome]).inc_by(0);
        }
        self.steps.clone()
    }

    /// The metrics of one queue.
    pub(super) fn of_queue(&self, name: &'static str) -> QueueMeter {
        for outcome in super::queue::OUTCOMES {
            self.settled.with_label_values(&[name, outcome]).inc_by(0);
        }
        for cause in super::queue::CAUSES {
            self.broken.with_label_values(&[name, cause]).inc_by(0);
        }
        self.claimed.with_label_values(&[name]).inc_by(0);
        self.late.with_label_values(&[name]).inc_by(0);
        self.running.with_label_values(&[name]).set(0);
        self.oldest.with_label_values(&[name]).set(0.0);
        QueueMeter { name, meter: self.clone() }
    }
}

/// Counts the jobs of one queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct QueueMeter {
    name: &'static str,
    meter: Meter,
}

impl QueueMeter {
    pub(super) fn claimed(&self, jobs: u64) {
        self.meter.claimed.with_label_values(&[self.name]).inc_by(jobs);
    }

    pub(super) fn settled(&self, outcome: &str) {
        self.meter.settled.with_label_values(&[self.name, outcome]).inc();
    }

    pub(super) fn late(&self) {
        self.meter.late.with_label_values(&[self.name]).inc();
    }

    pub(super) fn broken(&self, cause: &str) {
        self.meter.broken.with_label_values(&[self.name, cause]).inc();
    }

    pub(super) fn running(&self, jobs: usize) {
        self.meter.running.with_label_values(&[self.name]).set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    pub(super) fn oldest(&self, age: std::time::Duration) {
        self.meter.oldest.with_label_values(&[self.name]).set(age.as_secs_f64());
    }
}
