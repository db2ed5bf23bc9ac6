//! The authz settings, in addition to those that every service reads.

use contract::settings::{Kind, Problems};
use contract::{Settings, Variable, ports};
use service::ServiceConfig;
use service::config::base_url;
use service::layers::Limits;

const SUPERADMINS: Variable = Variable::new(
    "PLATFORM_SUPERADMINS",
    Kind::List,
    None,
    "User names or subjects who get platform-superadmin at a start that finds no holder; required at such a start (`platform up` with the built-in provider sets it to admin)",
);
const IDENTITY_BASE_URL: Variable = Variable::new(
    "PLATFORM_IDENTITY_BASE_URL",
    Kind::Url,
    None,
    "Address of identity; without it, identity's port on this machine",
);

/// The variables that only authz reads.
pub const VARIABLES: &[Variable] = &[SUPERADMINS, IDENTITY_BASE_URL];

/// The configuration of one authz process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings that every service reads.
    pub service: ServiceConfig,
    /// Base URL of identity.
    pub identity_url: String,
    /// User names or subjects that become superadmins at a start that finds none.
    pub superadmins: Vec<String>,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Returns every invalid value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let config = Self {
            service: ServiceConfig::read(&mut reader, "authz", ports::AUTHZ, Limits::FOUNDATION),
            identity_url: base_url(&mut reader, "identity", ports::IDENTITY),
            superadmins: reader.list(&SUPERADMINS),
        };
        reader.finish(config)
    }
}
