//! A service's connection pool, its metrics, and the classification of database errors.

use std::time::{Duration, Instant};

use prometheus::IntGauge;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};
use telemetry::Metrics;

use crate::ApiError;
use crate::config::{DatabaseConfig, DatabaseTls, TlsMode, is_local};

/// How long a request waits for a connection before it is refused with 503.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// Closes a connection that was idle this long.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// A connection that was idle this long is pinged before it is used, so that a database restart fails no request.
pub(crate) const TESTED_AFTER: Duration = Duration::from_secs(1);

/// Makes the pool; connections open on demand.
#[must_use]
pub fn pool(config: &DatabaseConfig) -> PgPool {
    pool_with(config, &[])
}

/// Makes the worker pool, separate from the request pool.
#[must_use]
pub fn worker_pool(config: &DatabaseConfig) -> PgPool {
    sized_pool(config, config.max_worker_connections, &[])
}

/// Makes the request pool with custom server settings.
#[must_use]
pub fn pool_with(config: &DatabaseConfig, settings: &[(&str, &str)]) -> PgPool {
    sized_pool(config, config.max_connections, settings)
}

fn sized_pool(config: &DatabaseConfig, max_connections: u32, settings: &[(&str, &str)]) -> PgPool {
    PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        // The pool pings each connection on return already; only connections that sat idle are pinged again.
        .test_before_acquire(false)
        .before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for >= TESTED_AFTER {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(options(config, settings))
}

/// Options of a single connection outside the pools.
#[must_use]
pub fn options(config: &DatabaseConfig, settings: &[(&str, &str)]) -> PgConnectOptions {
    let options = PgConnectOptions::new_without_pgpass()
        .host(&config.host)
        .port(config.port)
        .database(&config.name)
        .username(&config.role)
        .password(&config.password)
        .application_name(&config.role)
        .ssl_mode(PgSslMode::Disable)
        .options(settings.iter().copied());
    secured(options, &config.tls)
}

/// The same options with the required TLS mode: unchanged for this machine unless the configuration asks for more; for
/// any other machine the certificate and its name are verified unless the configuration asks for less. A Unix socket
/// has no TLS.
#[must_use]
pub fn secured(options: PgConnectOptions, tls: &DatabaseTls) -> PgConnectOptions {
    if options.get_socket().is_some() || options.get_host().starts_with('/') {
        return options;
    }
    let options = match (tls.mode, is_local(options.get_host())) {
        (Some(TlsMode::Prefer), _) => options.ssl_mode(PgSslMode::Prefer),
        (Some(TlsMode::VerifyFull), _) | (None, false) => options.ssl_mode(PgSslMode::VerifyFull),
        (None, true) => options,
    };
    match &tls.ca {
        Some(ca) => options.ssl_root_cert(ca),
        None => options,
    }
}

/// One connection, for a worker whose statements follow each other. A pool pings each connection on return, which costs
/// the server about as much as a short statement.
#[derive(Debug)]
pub struct OwnConnection {
    options: PgConnectOptions,
    idle: Option<(PgConnection, Instant)>,
}

impl OwnConnection {
    /// Connects on demand.
    #[must_use]
    pub fn new(config: &DatabaseConfig) -> Self {
        Self { options: options(config, &[]), idle: None }
    }

    /// The kept connection, or a new one. A caller that does not [`Self::put_back`] the connection closes it, as after
    /// an error.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn take(&mut self) -> sqlx::Result<PgConnection> {
        match self.idle.take() {
            Some((connection, since)) if since.elapsed() < TESTED_AFTER => Ok(connection),
            waited => {
                let living = self.living(waited.map(|(connection, _)| connection));
                tokio::time::timeout(ACQUIRE_TIMEOUT, living).await.map_err(|_| sqlx::Error::PoolTimedOut)?
            }
        }
    }

    /// Keeps the connection for the next statement.
    pub fn put_back(&mut self, connection: PgConnection) {
        self.idle = Some((connection, Instant::now()));
    }

    async fn living(&self, waited: Option<PgConnection>) -> sqlx::Result<PgConnection> {
        if let Some(mut connection) = waited
            && connection.ping().await.is_ok()
        {
            return Ok(connection);
        }
        self.options.connect().await
    }
}

/// The three metric families of one pool.
#[derive(Clone)]
pub(crate) struct PoolGauges {
    acquired: IntGauge,
    idle: IntGauge,
    max: IntGauge,
}

impl PoolGauges {
    /// Registers the families of the request pool (module contract, "Metrics").
    pub(crate) fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        Self::register_as(metrics, "platform_db_pool", "pool")
    }

    /// Registers the families of the worker pool.
    pub(crate) fn register_for_workers(metrics: &Metrics) -> prometheus::Result<Self> {
        Self::register_as(metrics, "platform_worker_db_pool", "worker pool")
    }

    fn register_as(metrics: &Metrics, head: &str, pool: &str) -> prometheus::Result<Self> {
        let gauge = |tail: &str, help: &str| metrics.register(IntGauge::new(format!("{head}_{tail}"), help)?);
        Ok(Self {
            acquired: gauge("acquired_conns", &format!("Acquired {pool} connections."))?,
            idle: gauge("idle_conns", &format!("Idle {pool} connections."))?,
            max: gauge("max_conns", &format!("Configured {pool} maximum."))?,
        })
    }

    /// Reads the pool's state, of which `kept` connections are reserved for the next read; called at each scrape.
    pub(crate) fn read(&self, pool: &PgPool, kept: usize) {
        let size = i64::from(pool.size());
        let idle = i64::try_from(pool.num_idle().saturating_add(kept)).unwrap_or(i64::MAX);
        self.acquired.set((size - idle).max(0));
        self.idle.set(idle);
        self.max.set(i64::from(pool.options().get_max_connections()));
    }
}

/// Whether the error means that the database is unavailable, rather than that the statement was wrong.
#[must_use]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a new kind of error is a bug until it is known to be an outage"
)]
pub fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(cause) => cause.code().is_some_and(|state| is_outage_state(&state)),
        _ => false,
    }
}

/// SQLSTATE of a lock timeout.
pub(crate) const LOCK_NOT_HAD: &str = "55P03";
/// SQLSTATE of a login with a wrong password.
pub(crate) const WRONG_PASSWORD: &str = "28P01";

/// Whether the server reported this SQLSTATE.
pub(crate) fn has_state(error: &sqlx::Error, state: &str) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|found| found == state)
}

/// SQLSTATE classes of an unavailable server: connection (08), resources (53), operator intervention such as a shutdown
/// or a cancelled statement (57), system (58), lock timeout (55P03), read-only after a fail-over (25006),
/// idle-in-transaction timeout (25P03), no such database or role yet (3D000, 28000, 28P01).
fn is_outage_state(state: &str) -> bool {
    let class = state.get(..2).unwrap_or_default();
    matches!(class, "08" | "53" | "57" | "58" | "28")
        || matches!(state, LOCK_NOT_HAD | "25006" | "25P03" | "3D000")
}

/// Whether the server aborted the transaction in favour of another: a serialization failure or a deadlock. It left no
/// effect and can be retried ([`crate::contention`]).
#[must_use]
pub fn is_contention(error: &sqlx::Error) -> bool {
    let state = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(state.as_deref(), Some("40001" | "40P01"))
}

/// Turns the violation of a named constraint into its own refusal; passes any other error through.
pub fn on_constraint(error: sqlx::Error, constraint: &str, refusal: impl FnOnce() -> ApiError) -> ApiError {
    let named =
        error.as_database_error().and_then(sqlx::error::DatabaseError::constraint) == Some(constraint);
    if named { refusal() } else { error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(host: &str, mode: Option<TlsMode>) -> PgSslMode {
        let tls = DatabaseTls { mode, ca: None };
        let config = DatabaseConfig {
            host: host.to_owned(),
            port: 5_432,
            name: "platform".to_owned(),
            role: "platform_org".to_owned(),
            password: "secret".to_owned(),
            max_connections: 1,
            max_worker_connections: 1,
            tls,
        };
        options(&config, &[]).get_ssl_mode()
    }

    #[test]
    fn a_database_elsewhere_is_verified_unless_less_is_asked_for() {
        use PgSslMode::{Disable, Prefer, VerifyFull};
        let cases = [
            ("127.0.0.1", Disable),
            ("127.8.8.8", Disable),
            ("::1", Disable),
            ("localhost", Disable),
            ("/var/run/postgresql", Disable),
            ("db.example.test", VerifyFull),
            ("10.0.0.1", VerifyFull),
            ("localhost.example.test", VerifyFull),
            ("127.1", VerifyFull),
            ("0.0.0.0", VerifyFull),
            ("", VerifyFull),
        ];
        for (host, unasked) in cases {
            assert!(same(mode(host, None), unasked), "{host:?}");
            if host.starts_with('/') {
                continue;
            }
            assert!(same(mode(host, Some(TlsMode::Prefer)), Prefer), "{host:?}");
            assert!(same(mode(host, Some(TlsMode::VerifyFull)), VerifyFull), "{host:?}");
        }
    }

    #[test]
    fn an_owners_address_may_ask_for_more_and_never_for_less() {
        let unasked = DatabaseTls::default();
        let of = |url: &str| secured(url.parse().expect("an address"), &unasked).get_ssl_mode();
        for weak in ["disable", "allow", "prefer", "require", "verify-ca"] {
            let remote = format!("postgres://owner:x@db.example.test/platform?sslmode={weak}");
            assert!(same(of(&remote), PgSslMode::VerifyFull), "{weak}");
        }
        let local = of("postgres://owner:x@127.0.0.1/platform?sslmode=verify-full");
        assert!(same(local, PgSslMode::VerifyFull));
    }

    fn same(left: PgSslMode, right: PgSslMode) -> bool {
        std::mem::discriminant(&left) == std::mem::discriminant(&right)
    }

    #[test]
    fn states_of_a_server_that_is_not_able() {
        for state in ["08006", "53300", "57P01", "57014", "58030", "55P03", "25006", "28P01", "3D000"] {
            assert!(is_outage_state(state), "{state}");
        }
        for state in ["23505", "42601", "22P05", "40001", ""] {
            assert!(!is_outage_state(state), "{state}");
        }
    }
}
