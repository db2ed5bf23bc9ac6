//! The configuration that every module reads (module contract, "Authentication" 4): the service's own part, and where
//! the decision endpoint and the organization are.

use contract::settings::Kind;
use contract::{Reader, Variable, ports};

use crate::ServiceConfig;
use crate::config::base_url;
use crate::layers::Limits;

/// The variables of every module, beside those of every service.
pub const VARIABLES: &[Variable] = &[
    Variable::new(
        "PLATFORM_AUTHZ_BASE_URL",
        Kind::Url,
        None,
        "Address of authz; without it, authz's port on this machine",
    ),
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
