//! The state that every handler of registry shares.

use std::sync::Arc;

use axum::extract::FromRef;
use contract::CorrelationId;
use service::clients::authz::AuthzClient;
use service::{ApiError, Caller, Core, PlatformRole, RoleAnswer};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::apps::rules::Reserved;
use crate::backends::Backends;
use crate::bundles::ShippedModule;
use crate::catalog::Current;
use crate::enablement::enabling::EnablingQueue;
use crate::snapshot::Follower;

/// The shared state of registry. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) reserved: Arc<Reserved>,
    pub(crate) catalog: Current,
    pub(crate) follower: Follower,
    pub(crate) enabling: EnablingQueue,
    pub(crate) backends: Backends,
    authz: AuthzClient,
    pub(crate) stop: CancellationToken,
}

impl App {
    /// Creates the state of one process, whose streams end when `stop` is cancelled.
    #[must_use]
    pub fn new(core: Core, config: &Config, shipped: &[ShippedModule], stop: &CancellationToken) -> Self {
        let module_keys = shipped.iter().map(|module| module.contract.manifest.key.clone()).collect();
        let reserved = Reserved { module_keys, idp_admin_client: config.idp_admin_client.clone() };
        Self {
            core,
            reserved: Arc::new(reserved),
            catalog: Current::new(&config.service.database),
            follower: Follower::default(),
            enabling: EnablingQueue::default(),
            backends: Backends::new(&config.identity_url, &config.service.inside),
            authz: AuthzClient::new(&config.authz_url, &config.service.inside),
            stop: stop.clone(),
        }
    }

    /// The same state, with the workers' database connections.
    pub(crate) fn for_workers(&self) -> Self {
        Self { core: self.core.for_workers(), ..self.clone() }
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
