//! What ships: every server of the platform as data, and the bundles of the modules. No other file names a service or
//! module crate; registry and authz receive what they need as values.

use std::future::Future;
use std::pin::Pin;

use contract::settings::Problems;
use contract::{Settings, Variable, ports};
use service::Bundle;
use sqlx::migrate::Migrator;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Name of the gateway, which is not a [`Part`].
pub(crate) const GATEWAY: &str = "gateway";

/// A server that runs until it is told to stop; the error says why it ended earlier.
pub(crate) type Serving = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
/// A configured server that has not started.
pub(crate) type Start = Box<dyn FnOnce(TcpListener, CancellationToken) -> Serving + Send>;

/// One service or module.
pub(crate) struct Part {
    /// Its name, which also names its database role, schema and variables.
    pub(crate) name: &'static str,
    /// Its port, before `PLATFORM_PORT_OFFSET` is added.
    pub(crate) port: u16,
    /// The variables that only this part reads.
    pub(crate) variables: &'static [Variable],
    /// The migrations of its schema.
    pub(crate) migrations: &'static Migrator,
    /// Its `openapi.json`.
    pub(crate) openapi: &'static str,
    /// Reads its configuration, without side effects.
    pub(crate) configure: fn(&Settings) -> Result<Start, Problems>,
}

/// Builds a [`Part`]. Without a third argument, `serve` takes the parameters that every service takes.
macro_rules! part {
    ($service:ident, $port:expr) => {
        part!($service, $port, |settings| {
            let config = $service::Config::read(settings)?;
            Ok(Box::new(move |listener, stop| {
                Box::pin(async move {
                    $service::serve(config, listener, stop).await.map_err(|error| error.to_string())
                })
            }))
        })
    };
    ($service:ident, $port:expr, $configure:expr) => {
        Part {
            name: stringify!($service),
            port: $port,
            variables: $service::VARIABLES,
            migrations: &$service::MIGRATIONS,
            openapi: $service::OPENAPI,
            configure: $configure,
        }
    };
}

/// All services and modules, in the order of their migrations. `platform check` compares the modules' ports with their
/// manifests.
pub(crate) fn parts() -> Vec<Part> {
    vec![
        part!(authz, ports::AUTHZ),
        part!(identity, ports::IDENTITY),
        part!(org, ports::ORG),
        part!(registry, ports::REGISTRY, configure_registry),
        part!(idp, ports::IDP),
        part!(timesheet, 8160),
        part!(notification, 8150),
        part!(helpdesk, 8180),
        part!(docs, 8170),
    ]
}

/// The modules that are compiled in.
pub(crate) fn bundles() -> Vec<Bundle> {
    vec![timesheet::BUNDLE, notification::BUNDLE, helpdesk::BUNDLE, docs::BUNDLE]
}

/// Key of the built-in identity provider, which does not run beside an external one.
pub(crate) const IDP: &str = "idp";

fn configure_registry(settings: &Settings) -> Result<Start, Problems> {
    let config = registry::Config::read(settings)?;
    Ok(Box::new(move |listener, stop| {
        Box::pin(async move {
            registry::serve(config, bundles(), listener, stop).await.map_err(|error| error.to_string())
        })
    }))
}
