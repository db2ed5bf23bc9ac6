//! The two decision metric families (module contract, "Metrics"). They count decisions of `can` and `batch-can`, not
//! those that the gateway's own guard requests. An undecidable request counts as `DEPENDENCY_UNAVAILABLE`.

use std::time::Duration;

use contract::decision::Reason;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts};
use telemetry::Metrics;

/// From 100 µs (an answer from memory) to 2.5 s (past every time limit of a decision).
const BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Counts decisions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DecisionMeter {
    total: IntCounterVec,
    duration: Histogram,
}

impl DecisionMeter {
    /// Registers both families, with every reason at zero.
    ///
    /// # Errors
    /// A family is already registered.
    pub fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let total = Opts::new("platform_authz_decisions_total", "Decisions by reason.");
        let total = metrics.register(IntCounterVec::new(total, &["reason"])?)?;
        for reason in Reason::ALL {
            total.with_label_values(&[reason.as_str()]).inc_by(0);
        }
        let duration = HistogramOpts::new("platform_authz_decision_duration_seconds", "Decision latency.");
        let duration = metrics.register(Histogram::with_opts(duration.buckets(BUCKETS.to_vec()))?)?;
        Ok(Self { total, duration })
    }

    /// Counts one decision.
    pub fn count(&self, reason: Reason, elapsed: Duration) {
        self.total.with_label_values(&[reason.as_str()]).inc();
        self.duration.observe(elapsed.as_secs_f64());
    }
}
