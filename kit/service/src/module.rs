//! What every module does the same way: the configuration that it reads (module contract, "Authentication" 4) and its
//! start, from the configuration to the drain.

use axum::Router;
use contract::settings::Kind;
use contract::{Clock, Reader, Variable, ports};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clients::authz::AuthzClient;
use crate::clients::org::OrgClient;
use crate::config::{AUTHZ_BASE_URL, base_url};
use crate::layers::Limits;
use crate::{Core, Permits, ServeError, ServiceConfig, idempotency};

/// The variables of every module, beside those of every service.
pub const VARIABLES: &[Variable] = &[
    AUTHZ_BASE_URL,
    Variable::new(
        "PLATFORM_ORG_BASE_URL",
        Kind::Url,
        None,
        "Address of org; without it, org's port on this machine",
    ),
];

/// What every module reads.
#[derive(Clone, Debug)]
pub struct ModuleConfig {
    /// As of every service.
    pub service: ServiceConfig,
    /// `PLATFORM_AUTHZ_BASE_URL`.
    pub authz_base_url: String,
    /// `PLATFORM_ORG_BASE_URL`.
    pub org_base_url: String,
}

impl ModuleConfig {
    /// Reads the configuration of the module `key` that listens on its manifest's `port`.
    pub fn read(reader: &mut Reader<'_>, key: &'static str, port: u16) -> Self {
        Self {
            service: ServiceConfig::read(reader, key, port, Limits::MODULE),
            authz_base_url: base_url(reader, "authz", ports::AUTHZ),
            org_base_url: base_url(reader, "org", ports::ORG),
        }
    }
}

/// What the handlers of every module are made of; nothing is connected yet. Cheap to clone.
#[derive(Clone)]
pub struct Parts {
    /// As of every service.
    pub core: Core,
    /// Asks authz for decisions.
    pub permits: Permits,
    /// Asks authz for the rest.
    pub authz: AuthzClient,
    /// Asks org.
    pub org: OrgClient,
}

impl Parts {
    /// Makes the parts of the module that the configuration names.
    ///
    /// # Errors
    /// A metric family registered twice.
    pub fn start(config: &ModuleConfig, clock: Clock, stop: &CancellationToken) -> Result<Self, ServeError> {
        let authz = AuthzClient::new(&config.authz_base_url);
        Ok(Self {
            core: Core::start(&config.service, clock, stop)?,
            permits: Permits::new(config.service.name, authz.clone()),
            authz,
            org: OrgClient::new(&config.org_base_url),
        })
    }
}

/// Serves the routes that `routes` makes of the module's parts until `stop` is cancelled, then drains. Stored answers
/// of idempotent operations that have expired are removed meanwhile.
///
/// # Errors
/// A metric family was registered twice, or the routes cannot be made.
pub async fn serve(
    config: &ModuleConfig,
    clock: Clock,
    listener: TcpListener,
    stop: CancellationToken,
    routes: impl FnOnce(Parts) -> Result<Router, ServeError>,
) -> Result<(), ServeError> {
    let parts = Parts::start(config, clock, &stop)?;
    let core = parts.core.clone();
    let aside = core.for_workers();
    core.workers.every("idempotency_sweep", idempotency::SWEEP_EVERY, move || {
        let core = aside.clone();
        async move { idempotency::sweep(&core.pool, core.name).await.map(drop) }
    });
    crate::serve(core, routes(parts)?, listener, stop, config.service.drain_timeout).await;
    Ok(())
}
