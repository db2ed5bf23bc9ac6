//! What every handler of identity holds.

use axum::extract::FromRef;
use service::{Core, OperatorKey};

use crate::Config;
use crate::provider::Provider;

/// The shared parts of identity. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) provider: Provider,
    operator: OperatorKey,
}

impl App {
    /// Of one process.
    #[must_use]
    pub fn new(core: Core, config: &Config) -> Self {
        let provider = Provider::new(config.provider.clone(), core.clock.clone());
        Self { core, provider, operator: config.operator.clone() }
    }

    /// The same on the workers' connections.
    pub(crate) fn for_workers(&self) -> Self {
        Self { core: self.core.for_workers(), ..self.clone() }
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}

impl FromRef<App> for OperatorKey {
    fn from_ref(app: &App) -> Self {
        app.operator.clone()
    }
}
