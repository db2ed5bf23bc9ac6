//! Deliveries: what is told about the outbox. The worker that empties it is not there yet, so every figure stays what
//! the tables say.

mod meter;
mod store;

use std::time::Duration;

use contract::settings::Kind;
use contract::{Reader, Variable};
use service::ServeError;
use service::module::{OwnSettings, Parts};

pub use meter::Meter;

/// How often jobs are counted.
const RECOUNT: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_RECOUNT_INTERVAL",
    Kind::Duration,
    Some("15s"),
    "How often delivery jobs are counted for the metrics; 1s to 1h",
);
/// A count reads an index of all jobs; more often than this would cost more than it tells.
const RECOUNT_MIN: Duration = Duration::from_secs(1);
/// Later than this the figures tell of another day.
const RECOUNT_MAX: Duration = Duration::from_hours(1);

/// What notification reads beside what every module reads.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `PLATFORM_NOTIFICATION_RECOUNT_INTERVAL`.
    pub recount_interval: Duration,
}

impl OwnSettings for Settings {
    const VARIABLES: &'static [Variable] = &[RECOUNT];

    fn read(reader: &mut Reader<'_>) -> Self {
        let recount_interval = reader.duration(&RECOUNT);
        if !(RECOUNT_MIN..=RECOUNT_MAX).contains(&recount_interval) {
            reader.refuse(RECOUNT.name, "is not between 1s and 1h");
        }
        Self { recount_interval }
    }
}

/// Registers the families and begins to count.
///
/// # Errors
/// A family registered twice.
pub fn start(parts: Parts, settings: &Settings) -> Result<Parts, ServeError> {
    let meter = Meter::register(&parts.core.metrics)?;
    let pool = parts.core.workers.pool().clone();
    parts.core.workers.every("delivery_recount", settings.recount_interval, move || {
        let (meter, pool) = (meter.clone(), pool.clone());
        async move { meter.count(&pool).await }
    });
    Ok(parts)
}
