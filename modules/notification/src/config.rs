//! What notification reads from the environment, beside what every module reads.

use std::time::Duration;

use contract::Settings;
use contract::settings::Problems;
use service::ModuleConfig;

use crate::delivery::meter::{RECOUNT, RECOUNT_MAX, RECOUNT_MIN};
use crate::{KEY, PORT};

/// The configuration of one notification process.
#[derive(Clone, Debug)]
pub struct Config {
    /// As of every module.
    pub module: ModuleConfig,
    /// `PLATFORM_NOTIFICATION_RECOUNT_INTERVAL`.
    pub recount_interval: Duration,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Every bad value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let module = ModuleConfig::read(&mut reader, KEY, PORT);
        let recount_interval = reader.duration(&RECOUNT);
        if !(RECOUNT_MIN..=RECOUNT_MAX).contains(&recount_interval) {
            reader.refuse(RECOUNT.name, "is not between 1s and 1h");
        }
        reader.finish(Self { module, recount_interval })
    }
}
