//! What every handler of org holds.

use axum::extract::FromRef;
use service::Core;

use crate::Config;
use crate::identity::IdentityClient;

/// The shared parts of org. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) identity: IdentityClient,
}

impl App {
    /// Of one process.
    #[must_use]
    pub fn new(core: Core, config: &Config) -> Self {
        Self { core, identity: IdentityClient::new(&config.identity_url) }
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}
