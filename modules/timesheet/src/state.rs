//! What every handler holds.

use axum::extract::FromRef;
use contract::Clock;
use service::clients::authz::AuthzClient;
use service::clients::org::OrgClient;
use service::{Core, Permits, ServeError};
use tokio_util::sync::CancellationToken;

use crate::{Config, KEY};

/// The shared parts of one process. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// As of every service.
    pub core: Core,
    /// Asks authz.
    pub permits: Permits,
    /// Asks org.
    pub org: OrgClient,
}

impl App {
    /// Makes the parts; nothing is connected yet.
    ///
    /// # Errors
    /// A metric family registered twice.
    pub fn start(config: &Config, clock: Clock, stop: &CancellationToken) -> Result<Self, ServeError> {
        let core = Core::start(&config.module.service, clock, stop)?;
        let permits = Permits::new(KEY, AuthzClient::new(&config.module.authz_base_url));
        let org = OrgClient::new(&config.module.org_base_url);
        Ok(Self { core, permits, org })
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}
