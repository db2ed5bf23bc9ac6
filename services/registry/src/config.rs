//! The configuration of registry: the variables that every service reads, and registry's own.

use contract::settings::{Kind, Problems};
use contract::{Settings, Variable, ports};
use service::ServiceConfig;
use service::config::{AUTHZ_BASE_URL, base_url};
use service::layers::Limits;

const INSTALLED_MODULES: Variable = Variable::new(
    "PLATFORM_INSTALLED_MODULES",
    Kind::List,
    None,
    "Built-in modules to install and enable at a start that finds them not installed; under up those that run, too: one that is installed and not named is not started. Absent: up runs all",
);
const IDP_ADMIN_CLIENT_ID: Variable = Variable::new(
    "PLATFORM_IDP_ADMIN_CLIENT_ID",
    Kind::Text,
    None,
    "Client that administers the identity provider; no app may register it as its own",
);

const IDENTITY_BASE_URL: Variable = Variable::new(
    "PLATFORM_IDENTITY_BASE_URL",
    Kind::Url,
    None,
    "Address of identity; without it, identity's port on this machine",
);

/// The variables that registry reads in addition to those of every service.
pub const VARIABLES: &[Variable] =
    &[INSTALLED_MODULES, IDP_ADMIN_CLIENT_ID, AUTHZ_BASE_URL, IDENTITY_BASE_URL];

/// The configuration of one registry process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration that all services share.
    pub service: ServiceConfig,
    /// The install list, unparsed; [`crate::check_install_list`] parses it.
    pub installed_modules: String,
    /// A client of the identity provider that no app may claim.
    pub idp_admin_client: Option<String>,
    /// Base URL of authz.
    pub authz_url: String,
    /// Base URL of identity.
    pub identity_url: String,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Lists every invalid value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let config = Self {
            service: ServiceConfig::read(&mut reader, "registry", ports::REGISTRY, Limits::FOUNDATION),
            installed_modules: reader.text(&INSTALLED_MODULES),
            idp_admin_client: reader.optional(&IDP_ADMIN_CLIENT_ID),
            authz_url: base_url(&mut reader, "authz", ports::AUTHZ),
            identity_url: base_url(&mut reader, "identity", ports::IDENTITY),
        };
        reader.finish(config)
    }
}
