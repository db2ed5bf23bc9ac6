//! The provider's own metric family, beside those of every service.

use prometheus::{IntCounterVec, Opts};
use telemetry::Metrics;

/// Counts logins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Meter {
    logins: IntCounterVec,
}

impl Meter {
    pub(crate) fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let opts = Opts::new("platform_idp_logins_total", "Logins by outcome.");
        let logins = metrics.register(IntCounterVec::new(opts, &["outcome"])?)?;
        for outcome in ["succeeded", "failed"] {
            logins.with_label_values(&[outcome]).inc_by(0);
        }
        Ok(Self { logins })
    }

    pub(crate) fn login(&self, succeeded: bool) {
        let outcome = if succeeded { "succeeded" } else { "failed" };
        self.logins.with_label_values(&[outcome]).inc();
    }
}
