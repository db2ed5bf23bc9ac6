//! The state that all handlers share.

use std::sync::Arc;

use axum::extract::FromRef;
use contract::Clock;
use service::{Core, ServeError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::keys::rotation::RotationLock;
use crate::keys::rules::KeyRing;
use crate::letters::Mailer;
use crate::letters::limits::Limits;
use crate::login::guard::Guard;
use crate::meter::Meter;
use crate::pages::PRODUCT;
use crate::passkeys::rules::RelyingParty;
use crate::reconcile;
use crate::users::passwords::Passwords;

/// The provider's state. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) realm: Arc<Realm>,
    pub(crate) keys: Arc<KeyRing>,
    /// Age at which signing keys are replaced.
    pub(crate) key_max_age: time::Duration,
    pub(crate) rotation: Arc<RotationLock>,
    pub(crate) passwords: Passwords,
    pub(crate) guard: Guard,
    /// Where browsers know passkeys: at a host that has a name.
    pub(crate) passkeys: Option<RelyingParty>,
    /// Sends e-mails, if a mail server is configured.
    pub(crate) mailer: Option<Mailer>,
    pub(crate) letters_limits: Limits,
    pub(crate) letters_wake: Arc<Notify>,
    pub(crate) meter: Meter,
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}

/// The only realm.
#[derive(Debug)]
pub(crate) struct Realm {
    pub(crate) name: String,
    /// `{base_url}/realms/{name}`.
    pub(crate) issuer: String,
    /// Audience of tokens for the platform.
    pub(crate) audience: String,
    /// Client that may use the administration routes.
    pub(crate) admin_client: String,
}

impl App {
    /// Connects and reconciles keys, clients and users with the configuration. Waits for a database that does not
    /// answer yet; `None` if it was told to stop meanwhile.
    ///
    /// # Errors
    /// Something other than an outage: the schema is missing, a stored key does not parse.
    pub async fn start(
        config: &Config,
        clock: Clock,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, ServeError> {
        let core = Core::start(&config.service, clock, stop)?;
        let passwords = Passwords::new().map_err(|error| ServeError::Unfit(error.to_string()))?;
        let Some(keys) = reconcile::until_done(&core, &passwords, config, stop).await? else {
            return Ok(None);
        };
        let realm = Realm {
            name: config.realm.clone(),
            issuer: config.issuer(),
            audience: config.audience.clone(),
            admin_client: config.admin_client.client_id.clone(),
        };
        let passkeys = RelyingParty::of(&config.issuer(), PRODUCT);
        let mailer = config.mail.as_ref().map(Mailer::new).transpose();
        let mailer = mailer.map_err(|error| ServeError::Unfit(format!("the mail transport: {error}")))?;
        let meter = Meter::register(&core.metrics)?;
        Ok(Some(Self {
            core,
            realm: Arc::new(realm),
            keys: Arc::new(keys),
            key_max_age: config.key_max_age,
            rotation: Arc::default(),
            passwords,
            guard: Guard::default(),
            passkeys,
            mailer,
            letters_limits: Limits::default(),
            letters_wake: Arc::default(),
            meter,
        }))
    }

    /// The same state on the workers' connection pool.
    pub(crate) fn for_workers(&self) -> Self {
        Self { core: self.core.for_workers(), ..self.clone() }
    }

    /// The state that every service has.
    #[must_use]
    pub const fn core(&self) -> &Core {
        &self.core
    }
}
