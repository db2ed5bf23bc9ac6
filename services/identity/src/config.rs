//! The variables that identity reads besides those of every service.

use contract::settings::{Kind, Problems};
use contract::{Reader, Settings, Variable, ports};
use service::ServiceConfig;
use service::config::offset_port;
use service::layers::Limits;

use crate::look::Intervals;
use crate::provider::ProviderConfig;
use crate::reconcile::{self, Reconcile};

const IDP_URL: Variable = Variable::new(
    "PLATFORM_IDP_URL",
    Kind::Url,
    None,
    "Internal address of a real Keycloak; without it, the built-in provider's port on this machine",
);
const REALM: Variable =
    Variable::new("PLATFORM_REALM", Kind::Text, Some("platform"), "Realm of the identity provider");
const CLIENT_ID: Variable = Variable::new(
    "PLATFORM_IDP_ADMIN_CLIENT_ID",
    Kind::Text,
    None,
    "Client used for reconciling the provider and for reading account state",
);
const CLIENT_SECRET: Variable =
    Variable::new("PLATFORM_IDP_ADMIN_CLIENT_SECRET", Kind::Secret, None, "Secret of that client");
const LOOK_INTERVAL: Variable = Variable::new(
    "PLATFORM_IDENTITY_LOOK_INTERVAL",
    Kind::Duration,
    Some("10s"),
    "How often the provider is asked for disabled and deleted accounts",
);
const FULL_LOOK_INTERVAL: Variable = Variable::new(
    "PLATFORM_IDENTITY_FULL_LOOK_INTERVAL",
    Kind::Duration,
    Some("10m"),
    "How often the provider is asked for all accounts",
);

/// The variables that identity reads besides those of every service.
pub const VARIABLES: &[Variable] = &{
    let [reconcile, domain, extra_origins, service_clients, client_secret] = reconcile::VARIABLES;
    [
        IDP_URL,
        REALM,
        CLIENT_ID,
        CLIENT_SECRET,
        LOOK_INTERVAL,
        FULL_LOOK_INTERVAL,
        reconcile,
        domain,
        extra_origins,
        service_clients,
        client_secret,
    ]
};

/// The configuration of one identity process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration that every service reads.
    pub service: ServiceConfig,
    /// Access to the identity provider.
    pub provider: ProviderConfig,
    /// How often the provider's accounts are checked.
    pub intervals: Intervals,
    /// The target state of an external provider; `None` if there is nothing to reconcile.
    pub reconcile: Option<Reconcile>,
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// Lists every invalid value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let (realm, client_id) = (reader.text(&REALM), reader.required(&CLIENT_ID));
        let config = Self {
            reconcile: reconcile::read(&mut reader, &realm, &client_id),
            service: ServiceConfig::read(&mut reader, "identity", ports::IDENTITY, Limits::FOUNDATION),
            provider: ProviderConfig {
                base_url: idp_url(&mut reader),
                realm,
                client_id,
                client_secret: reader.required(&CLIENT_SECRET),
            },
            intervals: Intervals {
                quick: interval(&mut reader, &LOOK_INTERVAL),
                full: interval(&mut reader, &FULL_LOOK_INTERVAL),
            },
        };
        reader.finish(config)
    }
}

fn idp_url(reader: &mut Reader<'_>) -> String {
    let local = format!("http://127.0.0.1:{}", offset_port(reader, ports::IDP));
    let url = reader.optional(&IDP_URL).unwrap_or(local);
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    if !is_web || url.parse::<http::Uri>().is_err() {
        reader.refuse(IDP_URL.name, format!("\"{url}\" is not an http:// or https:// address"));
    }
    url
}

fn interval(reader: &mut Reader<'_>, variable: &Variable) -> std::time::Duration {
    let interval = reader.duration(variable);
    if interval.is_zero() {
        reader.refuse(variable.name, "must be longer than 0s");
    }
    interval
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_never_rests_and_a_client_without_a_name_are_refused() {
        let settings = Settings::default()
            .with("PLATFORM_IDENTITY_LOOK_INTERVAL", "0s")
            .with("PLATFORM_IDP_URL", "localhost:8190");
        let problems = Config::read(&settings).expect_err("problems").to_string();
        for name in [
            "PLATFORM_IDENTITY_LOOK_INTERVAL: must be longer than 0s",
            "PLATFORM_IDP_URL: \"localhost:8190\" is not",
            "PLATFORM_IDP_ADMIN_CLIENT_ID: is required",
            "PLATFORM_IDP_ADMIN_CLIENT_SECRET: is required",
        ] {
            assert!(problems.contains(name), "{name} in\n{problems}");
        }
    }
}
