//! The provider's own metric family, besides those of every service.

use prometheus::{IntCounterVec, Opts};
use telemetry::Metrics;

/// How a login ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Succeeded,
    /// From the browser's session, without a form.
    Resumed,
    Failed,
    /// Not checked, after too many failures.
    Delayed,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Resumed => "resumed",
            Self::Failed => "failed",
            Self::Delayed => "delayed",
        }
    }
}

/// Counts logins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Meter {
    logins: IntCounterVec,
}

impl Meter {
    pub(crate) fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let opts = Opts::new("platform_idp_logins_total", "Logins by outcome.");
        let logins = metrics.register(IntCounterVec::new(opts, &["outcome"])?)?;
        for outcome in [Outcome::Succeeded, Outcome::Resumed, Outcome::Failed, Outcome::Delayed] {
            logins.with_label_values(&[outcome.name()]).inc_by(0);
        }
        Ok(Self { logins })
    }

    pub(crate) fn login(&self, outcome: Outcome) {
        self.logins.with_label_values(&[outcome.name()]).inc();
    }
}
