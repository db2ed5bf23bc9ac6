//! The state that every handler of org shares.

use axum::extract::FromRef;
use contract::CorrelationId;
use service::clients::authz::AuthzClient;
use service::{ApiError, Caller, Core, PlatformRole, RoleAnswer};

use crate::Config;
use crate::identity::IdentityClient;

/// The shared state of org. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) identity: IdentityClient,
    pub(crate) authz: AuthzClient,
}

impl App {
    /// Creates the state of one process.
    #[must_use]
    pub fn new(core: Core, config: &Config) -> Self {
        Self {
            core,
            identity: IdentityClient::new(&config.identity_url, &config.service.inside),
            authz: AuthzClient::new(&config.authz_url, &config.service.inside),
        }
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}

impl PlatformRole for App {
    async fn platform_role(
        &self,
        caller: &Caller,
        correlation: &CorrelationId,
    ) -> Result<RoleAnswer, ApiError> {
        Ok(self.authz.platform_role(caller, correlation).await?)
    }
}
