//! What every handler of authz holds.

use std::sync::Arc;

use axum::extract::FromRef;
use service::{Core, ServeError};

use crate::Config;
use crate::access::DenialLog;
use crate::engine::{DEFAULT_BUDGET, Engine, SqlEngine};
use crate::meter::DecisionMeter;

/// The shared parts of authz. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) denials: DenialLog,
    pub(crate) meter: DecisionMeter,
}

impl App {
    /// Of one process; starts the writer of denials, which ends with the last clone.
    ///
    /// # Errors
    /// A metric family registered twice.
    pub fn start(core: Core, config: &Config) -> Result<Self, ServeError> {
        let engine = Arc::new(SqlEngine::connect(&config.service.database, DEFAULT_BUDGET));
        let meter = DecisionMeter::register(&core.metrics)?;
        Ok(Self { denials: DenialLog::start(core.pool.clone()), engine, meter, core })
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}
