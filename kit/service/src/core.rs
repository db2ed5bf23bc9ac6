//! The parts that every service holds: name, pool, bearer verifier, metrics and clock.

use std::ops::Deref;
use std::sync::Arc;

use bearer::{VerifiedTokens, Verifier};
use contract::{Clock, CorrelationId, Subject};
use sqlx::PgPool;
use telemetry::{Metrics, Tracer};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::half;
use crate::db::{ACQUIRE_TIMEOUT, PoolGauges};
use crate::fair_share::{FairLimit, FairShare, Use};
use crate::read_limit::RefusedReads;
use crate::readiness::Readiness;
use crate::transaction;
use crate::{ApiError, AuditedTx, Inside, LongReads, ReadLimit, Reads, ServeError, ServiceConfig, Workers};

/// Maximum number of remembered verified tokens, 32 MB at most: a service sees the same callers again and again, and
/// forwards a caller's token on its own calls.
const MOST_TOKENS: usize = 20_000;

/// The shared parts of one service. Each service's `App` holds one and gives it to the extractors through `FromRef`,
/// several times a request, so a clone is one reference to the [`CoreParts`].
#[derive(Clone)]
pub struct Core(Arc<CoreParts>);

impl Deref for Core {
    type Target = CoreParts;

    fn deref(&self) -> &CoreParts {
        &self.0
    }
}

/// What a [`Core`] gives access to.
#[derive(Clone)]
pub struct CoreParts {
    /// `org`, `timesheet`, …: names the schema, the role, the audit table and the `service` label.
    pub name: &'static str,
    /// Connections as `platform_<name>`.
    pub pool: PgPool,
    /// The same connections, for standalone reads.
    pub reads: Reads,
    /// Verifies bearers.
    pub tokens: Arc<VerifiedTokens>,
    /// How services identify each other and the operator.
    pub inside: Inside,
    /// This service's metrics.
    pub metrics: Metrics,
    /// Makes the service's spans, where tracing is on.
    pub tracer: Option<Tracer>,
    /// The time.
    pub clock: Clock,
    /// Background work; [`crate::serve`] waits for it to end.
    pub workers: Workers,
    /// Start-up passes that `/ready` waits for.
    pub readiness: Readiness,
    /// Limits concurrent costly reads.
    pub read_limit: ReadLimit,
    /// Limits concurrent reads of a few rows by an index.
    pub brief_reads: ReadLimit,
    /// Shares the connections between those who read long texts or lists.
    pub long_reads: LongReads,
    /// Limits operations that hold a connection while they wait for another service.
    pub(crate) holds: FairLimit,
    /// Limits the transactions of one caller.
    pub(crate) transactions: FairShare,
    pub(crate) gauges: PoolGauges,
    pub(crate) limits: crate::layers::Limits,
}

impl Core {
    /// Connects lazily: a database that is down when the service starts is an unavailable dependency, not a reason to
    /// exit.
    ///
    /// # Errors
    /// A metric family was registered twice.
    pub fn start(config: &ServiceConfig, clock: Clock, stop: &CancellationToken) -> Result<Self, ServeError> {
        let metrics = Metrics::new(config.name, env!("CARGO_PKG_VERSION"), &config.commit)?;
        let verifier = Verifier::start(config.bearer.clone(), clock.clone(), stop.clone());
        let gauges = PoolGauges::register(&metrics)?;
        let refused = RefusedReads::register(&metrics)?;
        let tracer = Tracer::of(config.name, &metrics)?;
        let workers = Workers::start(config.name, &config.database, &metrics, stop)?;
        let pool = crate::db::pool(&config.database);
        Ok(Self(Arc::new(CoreParts {
            name: config.name,
            // The other half serves requests that need only the database.
            holds: FairLimit::new(half(config.database.max_connections), 1),
            transactions: share(config.database.max_connections),
            read_limit: ReadLimit::counted(config.costly_reads, &refused, "costly"),
            brief_reads: ReadLimit::counted(half(config.database.max_connections), &refused, "brief"),
            long_reads: LongReads::new(half(config.database.max_connections)),
            reads: Reads::of(&pool),
            pool,
            tokens: Arc::new(VerifiedTokens::new(verifier, MOST_TOKENS)),
            inside: config.inside.clone(),
            metrics,
            tracer,
            clock,
            workers,
            readiness: Readiness::default(),
            gauges,
            limits: config.limits,
        })))
    }

    /// The same parts on the worker pool, for background work.
    #[must_use]
    pub fn for_workers(&self) -> Self {
        let pool = self.workers.pool().clone();
        let connections = pool.options().get_max_connections();
        Self(Arc::new(CoreParts {
            reads: Reads::keeping_none(&pool),
            pool,
            holds: FairLimit::new(half(connections), 1),
            transactions: share(connections),
            ..CoreParts::clone(self)
        }))
    }

    /// Opens a transaction whose changes are audited with `actor`. One subject has at most half of the connections,
    /// so that others find one.
    ///
    /// # Errors
    /// 503 when the database is unavailable, or when the subject's own transactions take too long.
    pub async fn begin(&self, actor: &Subject, correlation: &CorrelationId) -> Result<AuditedTx, ApiError> {
        let share = self.share_of(actor).await?;
        let tx = self.begin_as(actor.as_str(), Some(correlation.as_str())).await?;
        Ok(tx.within(share))
    }

    /// Opens a transaction for work without a bearer (`system:<worker>`, an operator's account name).
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn begin_as(&self, actor: &str, correlation: Option<&str>) -> Result<AuditedTx, ApiError> {
        let tx = transaction::begin(&self.pool, "BEGIN").await?;
        Ok(AuditedTx::new(tx, self.name, actor, correlation))
    }

    async fn share_of(&self, subject: &Subject) -> Result<Use, ApiError> {
        let unavailable = || ApiError::unavailable("postgres");
        let share = timeout(ACQUIRE_TIMEOUT, self.transactions.enter(subject.as_str())).await;
        share.map_err(|_| unavailable())?.map_err(ApiError::internal)?.ok_or_else(unavailable)
    }
}

/// The transactions that one subject has at a time: half of the connections. [`Reads`] keeps another half, so with an odd
/// number there is one left for the next subject.
fn share(connections: u32) -> FairShare {
    FairShare::new(half(connections))
}
