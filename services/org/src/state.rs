//! What every handler of org holds.

use axum::extract::FromRef;
use contract::CorrelationId;
use service::clients::authz::AuthzClient;
use service::{ApiError, Caller, Core, OperatorKey, PlatformRole, RoleAnswer};

use crate::Config;
use crate::identity::IdentityClient;

/// The shared parts of org. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) identity: IdentityClient,
    authz: AuthzClient,
    operator: OperatorKey,
}

impl App {
    /// Of one process.
    #[must_use]
    pub fn new(core: Core, config: &Config) -> Self {
        Self {
            core,
            identity: IdentityClient::new(&config.identity_url),
            authz: AuthzClient::new(&config.authz_url),
            operator: config.operator.clone(),
        }
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

impl PlatformRole for App {
    async fn platform_role(
        &self,
        caller: &Caller,
        correlation: &CorrelationId,
    ) -> Result<RoleAnswer, ApiError> {
        Ok(self.authz.platform_role(&caller.subject, correlation).await?)
    }
}
