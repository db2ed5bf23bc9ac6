//! Standalone statements: reads outside any transaction. sqlx's pool pings each connection on return, in a task of its
//! own, which costs the service and the server as much as a short statement. A statement whose result was read to its
//! end leaves no state on its connection, so some of the pool's connections are kept here between such statements
//! instead of being returned. After anything else (an error, an abandoned statement) the connection goes back to the
//! pool, which pings it.
//!
//! A [`Reads`] is an executor like the pool: `query.fetch_all(&reads)`. It buffers all rows of a result before it
//! yields the first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Describe, Either, Execute, Executor, PgPool, Postgres, SqlStr};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::db::TESTED_AFTER;

/// Runs single statements on a pool's connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: PgPool,
    /// One permit for each connection that may be kept.
    permits: Arc<Semaphore>,
    /// Last in, first out, so that surplus connections go back to the pool.
    kept: Mutex<Vec<(PoolConnection<Postgres>, Instant)>>,
}

/// A connection for one statement. Dropping it returns the connection to the pool.
struct Held {
    connection: PoolConnection<Postgres>,
    /// Present when the connection may be kept.
    permit: Option<OwnedSemaphorePermit>,
}

impl Reads {
    /// Keeps up to half of the pool's connections, so that transactions find the other half.
    #[must_use]
    pub fn of(pool: &PgPool) -> Self {
        Self::keeping(pool, pool.options().get_max_connections() / 2)
    }

    /// Keeps no connections.
    #[must_use]
    pub fn keeping_none(pool: &PgPool) -> Self {
        Self::keeping(pool, 0)
    }

    fn keeping(pool: &PgPool, most: u32) -> Self {
        let permits = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(permits));
        Self(Arc::new(Shared { pool: pool.clone(), permits, kept: Mutex::default() }))
    }

    /// The number of connections that are kept for the next read.
    pub(crate) fn kept(&self) -> usize {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns every connection, for a pool that is about to close.
    pub(crate) fn close(&self) {
        self.0.permits.close();
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A kept connection; when all that may be kept are in use, another one from the pool.
    async fn take(&self) -> sqlx::Result<Held> {
        let permit = Arc::clone(&self.0.permits).try_acquire_owned().ok();
        let kept = permit.as_ref().and_then(|_| self.pop());
        let connection = match kept {
            Some(connection) => connection,
            None => self.0.pool.acquire().await?,
        };
        Ok(Held { connection, permit })
    }

    /// A kept connection. One that was idle for long goes through the pool's check first.
    fn pop(&self) -> Option<PoolConnection<Postgres>> {
        let (connection, since) = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        (since.elapsed() < TESTED_AFTER).then_some(connection)
    }

    fn keep(&self, held: Held) {
        let Held { connection, permit } = held;
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_some() && !self.0.permits.is_closed() {
            kept.push((connection, Instant::now()));
        }
    }
}

impl<'p> Executor<'p> for &'_ Reads {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let reads = self.clone();
        let answer = async move {
            let mut held = reads.take().await?;
            let rows: Vec<_> = held.connection.fetch_many(query).try_collect().await?;
            reads.keep(held);
            Ok(stream::iter(rows.into_iter().map(Ok)))
        };
        answer.try_flatten_stream().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let reads = self.clone();
        let answer = async move {
            let mut held = reads.take().await?;
            let row = held.connection.fetch_optional(query).await?;
            reads.keep(held);
            Ok(row)
        };
        answer.boxed()
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'p: 'e,
    {
        let pool = self.0.pool.clone();
        async move { pool.acquire().await?.prepare_with(sql, parameters).await }.boxed()
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'p: 'e,
    {
        let pool = self.0.pool.clone();
        async move { pool.acquire().await?.describe(sql).await }.boxed()
    }
}
