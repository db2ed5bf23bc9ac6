//! The state that every authz handler shares.

use std::sync::Arc;

use axum::extract::FromRef;
use contract::CorrelationId;
use service::{ApiError, Caller, Core, PlatformRole, RoleAnswer, ServeError};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::decision;
use crate::denials::DenialLog;
use crate::engine::{DEFAULT_BUDGET, Engine, MemoryEngine, SqlEngine};
use crate::meter::DecisionMeter;

/// The shared state of authz. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Core,
    pub(crate) engine: Arc<dyn Engine>,
    /// Connections for lists and summaries only, so that slow ones delay nothing else.
    pub(crate) lists: PgPool,
    pub(crate) denials: DenialLog,
    pub(crate) meter: DecisionMeter,
    /// The public origin, for the AuthZEN metadata.
    pub(crate) base_url: Arc<str>,
}

impl App {
    /// Starts the shared state of one process: the writer of denials, which ends with the last clone, and the feed.
    ///
    /// # Errors
    /// A metric family is registered twice.
    pub fn start(core: Core, config: &Config, stop: &CancellationToken) -> Result<Self, ServeError> {
        let database = &config.service.database;
        let sql = Arc::new(SqlEngine::connect(database, DEFAULT_BUDGET));
        let lists = sql.lists();
        let engine = MemoryEngine::start(database, sql, DEFAULT_BUDGET, &core.metrics, stop.clone())?;
        let engine = Arc::new(engine);
        let meter = DecisionMeter::register(&core.metrics)?;
        let base_url = Arc::from(config.service.bearer.public_origin());
        Ok(Self { denials: DenialLog::start(database), engine, lists, meter, base_url, core })
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}

impl PlatformRole for App {
    async fn platform_role(&self, caller: &Caller, _: &CorrelationId) -> Result<RoleAnswer, ApiError> {
        let request = decision::superadmin_request();
        let decided = decision::decide(&*self.engine, &caller.subject, &request).await?;
        let evidence = serde_json::to_value(decided.evidence).map_err(ApiError::internal)?;
        Ok(RoleAnswer { held: decided.allowed, reason: decided.reason.as_str().to_owned(), evidence })
    }
}
