//! The state that all handlers of identity share.

use axum::extract::FromRef;
use service::Core;

use crate::Config;
use crate::provider::Provider;

/// The shared parts of identity. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) provider: Provider,
}

impl App {
    /// Creates the state of one process.
    #[must_use]
    pub fn new(core: Core, config: &Config) -> Self {
        let provider = Provider::new(config.provider.clone(), core.clock.clone());
        Self { core, provider }
    }

    /// The same state on the workers' connection pool.
    pub(crate) fn for_workers(&self) -> Self {
        Self { core: self.core.for_workers(), ..self.clone() }
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}
