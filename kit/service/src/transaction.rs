//! The beginning of a transaction.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use sqlx::{PgPool, Postgres, SqlSafeStr as _, Transaction};
use tokio::runtime::Handle;

type Begun = sqlx::Result<Transaction<'static, Postgres>>;

/// Begins a transaction with a statement such as `BEGIN READ ONLY`.
///
/// A caller that is dropped while it waits, because its client left, leaves no transaction behind. sqlx's own `begin`
/// would: it counts a transaction only once the server has answered, so it returns the connection to the pool without a
/// rollback. Later statements on that connection are then not committed, read an old snapshot, or fail because the
/// transaction is read-only.
///
/// # Errors
/// The database is unavailable.
pub async fn begin(pool: &PgPool, statement: &'static str) -> Begun {
    let connection = pool.acquire().await?;
    Beginning(Some(Transaction::begin(connection, Some(statement.into_sql_str())))).await
}

/// The answer to `BEGIN`. If it is dropped, a task waits for the answer and rolls the transaction back.
struct Beginning(Option<BoxFuture<'static, Begun>>);

impl Future for Beginning {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Begun> {
        let Some(answer) = &mut self.0 else { return Poll::Pending };
        let begun = ready!(answer.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(begun)
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if let (Some(answer), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(answer);
        }
    }
}
