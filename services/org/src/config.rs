//! The configuration of org: the variables that every service reads, and org's own.

use contract::settings::{Kind, Problems};
use contract::{Settings, Variable, ports};
use service::ServiceConfig;
use service::config::{AUTHZ_BASE_URL, base_url};
use service::layers::Limits;

/// The variables that org reads in addition to those of every service.
pub const VARIABLES: &[Variable] = &[
    Variable::new(
        "PLATFORM_IDENTITY_BASE_URL",
        Kind::Url,
        None,
        "Address of identity; without it, identity's port on this machine",
    ),
    AUTHZ_BASE_URL,
];

/// The configuration of one org process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration that all services share.
    pub service: ServiceConfig,
    /// Base URL of identity.
    pub identity_url: String,
    /// Base URL of authz.
    pub authz_url: String,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Lists every invalid value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let config = Self {
            service: ServiceConfig::read(&mut reader, "org", ports::ORG, Limits::FOUNDATION),
            identity_url: base_url(&mut reader, "identity", ports::IDENTITY),
            authz_url: base_url(&mut reader, "authz", ports::AUTHZ),
        };
        reader.finish(config)
    }
}
