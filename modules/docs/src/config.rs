//! What docs reads from the environment: nothing beyond what every module reads.

use contract::Settings;
use contract::settings::Problems;
use service::ModuleConfig;

use crate::{KEY, PORT};

/// The configuration of one docs process.
#[derive(Clone, Debug)]
pub struct Config {
    /// As of every module.
    pub module: ModuleConfig,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Every bad value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let module = ModuleConfig::read(&mut reader, KEY, PORT);
        reader.finish(Self { module })
    }
}
