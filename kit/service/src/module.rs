//! What every module does the same way: the configuration that it reads (module contract, "Authentication" 4) and its
//! start, from the configuration to the drain.

use std::ops::Deref;

use axum::Router;
use axum::extract::FromRef;
use contract::settings::Kind;
use contract::{Clock, Reader, Variable, ports};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clients::authz::AuthzClient;
use crate::clients::org::OrgClient;
use crate::config::{AUTHZ_BASE_URL, base_url};
use crate::layers::Limits;
use crate::two_store::{self, TupleRow, TwoStore};
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

/// What the handlers of every module are made of; nothing is connected yet. Cheap to clone. The state of a module's
/// routes, where it needs nothing of its own.
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

impl FromRef<Parts> for Core {
    fn from_ref(parts: &Parts) -> Self {
        parts.core.clone()
    }
}

impl FromRef<Parts> for Permits {
    fn from_ref(parts: &Parts) -> Self {
        parts.permits.clone()
    }
}

/// Extracts the core from a state that dereferences to the parts.
impl<A: Deref<Target = Parts>> FromRef<A> for Core {
    fn from_ref(app: &A) -> Self {
        app.core.clone()
    }
}

/// Extracts the permits from a state that dereferences to the parts.
impl<A: Deref<Target = Parts>> FromRef<A> for Permits {
    fn from_ref(app: &A) -> Self {
        app.permits.clone()
    }
}

impl Parts {
    /// Drives the module's rows that stand for tuples.
    #[must_use]
    pub fn two_store(&self) -> TwoStore {
        TwoStore::new(self.core.clone(), self.authz.clone())
    }

    /// Runs a worker that settles the rows of one table which a crash left between two states.
    pub fn sweep_rows<R: TupleRow + 'static>(&self, worker: &'static str) {
        let rows = TwoStore::new(self.core.for_workers(), self.authz.clone());
        self.core.workers.every(worker, two_store::SWEEP_EVERY, move || {
            let rows = rows.clone();
            async move { rows.sweep::<R>(two_store::STALE_AFTER).await.map(drop) }
        });
    }

    /// Makes the parts of the module that the configuration names.
    ///
    /// # Errors
    /// A metric family registered twice.
    pub fn start(config: &ModuleConfig, clock: Clock, stop: &CancellationToken) -> Result<Self, ServeError> {
        let authz = AuthzClient::new(&config.authz_base_url, &config.service.inside);
        Ok(Self {
            core: Core::start(&config.service, clock, stop)?,
            permits: Permits::new(config.service.name, authz.clone()),
            authz,
            org: OrgClient::new(&config.org_base_url, &config.service.inside),
        })
    }
}

/// The variables that one module reads beside those of every module.
pub trait OwnSettings: Sized {
    /// They.
    const VARIABLES: &'static [Variable];

    /// Reads them, beside what the module reads as every service does; a bad value is told to the reader.
    fn read(reader: &mut Reader<'_>, service: &ServiceConfig) -> Self;
}

/// None.
impl OwnSettings for () {
    const VARIABLES: &'static [Variable] = &[];

    fn read(_reader: &mut Reader<'_>, _service: &ServiceConfig) -> Self {}
}

/// For [`declare_module!`](crate::declare_module).
#[doc(hidden)]
pub mod declared {
    pub use contract::settings::Problems;
    pub use contract::{Clock, Settings, Variable};
    pub use tokio::net::TcpListener;
    pub use tokio_util::sync::CancellationToken;
}

/// Declares what the platform and the tests need of a module's crate: `KEY`, `PORT`, `VARIABLES`, `OPENAPI`,
/// `MIGRATIONS`, `BUNDLE`, `Config`, `serve` and, for a test's clock, `serve_by`.
///
/// `operations` is a function that gives the module's [`Operations`](crate::Operations). With `settings` (an
/// [`OwnSettings`]) and `state`, a function `(Parts, &settings) -> Result<State, ServeError>`, a module
/// has variables and a state of its own; workers and metrics begin there.
#[macro_export]
macro_rules! declare_module {
    (key: $key:literal, port: $port:literal, operations: $operations:path $(,)?) => {
        $crate::declare_module! {
            key: $key, port: $port, operations: $operations, settings: (), state: $crate::module::parts,
        }
    };
    (
        key: $key:literal, port: $port:literal, operations: $operations:path,
        settings: $settings:ty, state: $state:path $(,)?
    ) => {
        /// Names the schema, the role, the base path and the features.
        pub const KEY: &str = $key;
        /// `service.port` of the manifest.
        pub const PORT: u16 = $port;
        /// The variables that this module reads beside those of every module.
        pub const VARIABLES: &[$crate::module::declared::Variable] =
            <$settings as $crate::module::OwnSettings>::VARIABLES;
        /// The operations as OpenAPI 3.1.
        pub const OPENAPI: &str =
            ::core::include_str!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/openapi.json"));
        /// The DDL of the module's schema.
        pub static MIGRATIONS: ::sqlx::migrate::Migrator = ::sqlx::migrate!("./migrations");
        /// The files of the module contract.
        pub const BUNDLE: $crate::Bundle = $crate::Bundle {
            key: KEY,
            manifest: ::core::include_str!(::core::concat!(
                ::core::env!("CARGO_MANIFEST_DIR"),
                "/module.manifest.json"
            )),
            fragment: ::core::include_str!(::core::concat!(
                ::core::env!("CARGO_MANIFEST_DIR"),
                "/authz.fragment.json"
            )),
            openapi: OPENAPI,
            license: ::core::include_str!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/LICENSE")),
            migrations: &MIGRATIONS,
        };

        /// The configuration of one process of this module.
        #[derive(Clone, Debug)]
        pub struct Config {
            /// As of every module.
            pub module: $crate::ModuleConfig,
            /// The module's own.
            pub own: $settings,
        }

        impl Config {
            /// Reads the settings.
            ///
            /// # Errors
            /// Every bad value.
            pub fn read(
                settings: &$crate::module::declared::Settings,
            ) -> ::core::result::Result<Self, $crate::module::declared::Problems> {
                let mut reader = settings.reader();
                let module = $crate::ModuleConfig::read(&mut reader, KEY, PORT);
                let own = <$settings as $crate::module::OwnSettings>::read(&mut reader, &module.service);
                reader.finish(Self { module, own })
            }
        }

        /// Serves the module until `stop` is cancelled, then drains.
        ///
        /// # Errors
        /// A metric family was registered twice.
        pub async fn serve(
            config: Config,
            listener: $crate::module::declared::TcpListener,
            stop: $crate::module::declared::CancellationToken,
        ) -> ::core::result::Result<(), $crate::ServeError> {
            serve_by($crate::module::declared::Clock::system(), config, listener, stop).await
        }

        /// The same by another clock.
        ///
        /// # Errors
        /// As [`serve`].
        pub async fn serve_by(
            clock: $crate::module::declared::Clock,
            config: Config,
            listener: $crate::module::declared::TcpListener,
            stop: $crate::module::declared::CancellationToken,
        ) -> ::core::result::Result<(), $crate::ServeError> {
            let routes = |parts| Ok($operations().routes($state(parts, &config.own)?));
            $crate::module::serve(&config.module, clock, listener, stop, routes).await
        }
    };
}

/// The state of a module that needs nothing of its own.
///
/// # Errors
/// None.
pub fn parts(parts: Parts, (): &()) -> Result<Parts, ServeError> {
    Ok(parts)
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
