//! The catalog in memory, as fresh as a read of the database. Every question is answered from a round that began after it
//! arrived: one short statement tells the catalog's present edition, and only another edition than the one in memory is read
//! whole. Questions that arrive while a round is under way share the next one. A change that was acknowledged before the
//! question was sent had been committed before that statement, so the answer holds it, whichever process made the change.
//!
//! Without the statement's answer there is none: memory alone never answers.

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

/// How long a round may take, with a new connection when it needs one. A question waits for two of them at most, the one
/// under way and its own, which is within a request's 4.5 s.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers with the catalog as it is now. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Current(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// How many questions have arrived.
    arrived: AtomicU64,
    reader: Mutex<Reader>,
}

/// Whoever holds it may begin a round.
#[derive(Debug)]
struct Reader {
    connection: OwnConnection,
    known: Option<Arc<Published>>,
    last: Round,
}

/// The round that ended last.
#[derive(Debug, Default)]
struct Round {
    /// Questions up to this number had arrived when it began.
    covers: u64,
    /// `None`: the database did not answer, or not in time.
    found: Option<Arc<Published>>,
}

impl Current {
    /// Connects when it is asked.
    pub(crate) fn new(database: &DatabaseConfig) -> Self {
        let reader = Reader { connection: OwnConnection::new(database), known: None, last: Round::default() };
        Self(Arc::new(Shared { arrived: AtomicU64::new(0), reader: Mutex::new(reader) }))
    }

    /// The catalog at a moment after this call began.
    ///
    /// # Errors
    /// 503 when the database does not answer in time.
    pub(crate) async fn get(&self) -> Result<Arc<Published>, ApiError> {
        let arrival = self.0.arrived.fetch_add(1, Ordering::SeqCst) + 1;
        let mut reader = self.0.reader.lock().await;
        if reader.last.covers < arrival {
            // Counted before the statement is sent. A round that is dropped half-way covers nobody.
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
            tracing::warn!(timeout = ?ROUND_TIMEOUT, "the catalog's revision was not read in time");
            Err(ApiError::unavailable("postgres"))
        })
    }

    /// A connection on which anything went wrong, or whose statement was given up, is closed.
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
