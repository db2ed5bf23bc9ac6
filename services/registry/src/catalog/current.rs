//! The catalog in memory, as fresh as a read of the database. Every call is served by a round that began after the call
//! arrived: one short statement reads the current edition, and the whole catalog is read only if its edition differs
//! from the one in memory. Calls that arrive during a round share the next one. A change that was acknowledged before a
//! call, by any process, was committed before that statement, so the result contains it.
//!
//! If the statement fails, so does the call; memory alone never serves one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use service::ApiError;
use service::config::DatabaseConfig;
use service::db::OwnConnection;
use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::published::Published;
use super::store;

/// Timeout of a round, including a new connection if needed. A call waits for at most two rounds, the current one and
/// its own, which is within a request's 4.5 s.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);

/// Provides the current catalog. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Current(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Number of calls that have arrived.
    arrived: AtomicU64,
    reader: Mutex<Reader>,
}

/// The state of rounds. A round holds its lock.
#[derive(Debug)]
struct Reader {
    connection: OwnConnection,
    known: Option<Arc<Published>>,
    last: Round,
}

/// The result of the last round.
#[derive(Debug, Default)]
struct Round {
    /// Number of calls that had arrived when the round began.
    covers: u64,
    /// `None` if the round failed or timed out.
    found: Option<Arc<Published>>,
}

impl Current {
    /// Creates the reader; it connects at the first call.
    pub(crate) fn new(database: &DatabaseConfig) -> Self {
        let reader = Reader { connection: OwnConnection::new(database), known: None, last: Round::default() };
        Self(Arc::new(Shared { arrived: AtomicU64::new(0), reader: Mutex::new(reader) }))
    }

    /// Returns the catalog as of a time after this call began.
    ///
    /// # Errors
    /// 503 if the database does not answer in time.
    pub(crate) async fn get(&self) -> Result<Arc<Published>, ApiError> {
        let arrival = self.0.arrived.fetch_add(1, Ordering::SeqCst) + 1;
        let mut reader = self.0.reader.lock().await;
        if reader.last.covers < arrival {
            // Read before the statement is sent. A round that is dropped covers no call.
            let covers = self.0.arrived.load(Ordering::SeqCst);
            let outcome = reader.round().await;
            reader.last = Round { covers, found: outcome.as_ref().ok().cloned() };
            return outcome;
        }
        reader.last.found.clone().ok_or_else(|| ApiError::unavailable("postgres"))
    }
}

impl Reader {
    async fn round(&mut self) -> Result<Arc<Published>, ApiError> {
        let read = timeout(ROUND_TIMEOUT, self.read()).await;
        read.unwrap_or_else(|_| {
            tracing::warn!(timeout = ?ROUND_TIMEOUT, "reading the catalog timed out");
            Err(ApiError::unavailable("postgres"))
        })
    }

    /// Runs a round. A connection is closed, not reused, after an error or a timeout.
    async fn read(&mut self) -> Result<Arc<Published>, ApiError> {
        let mut connection = self.connection.take().await?;
        let published = self.follow(&mut connection).await?;
        self.connection.put_back(connection);
        Ok(published)
    }

    async fn follow(&mut self, connection: &mut PgConnection) -> Result<Arc<Published>, ApiError> {
        let edition = store::edition(&mut *connection).await?;
        if let Some(known) = self.known.as_ref().filter(|known| known.catalog.edition == edition) {
            return Ok(Arc::clone(known));
        }
        let published = Arc::new(Published::of(store::load(connection).await?)?);
        self.known = Some(Arc::clone(&published));
        Ok(published)
    }
}
