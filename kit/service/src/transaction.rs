//! The beginning of a transaction.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::runtime::Handle;

type Begun = sqlx::Result<Transaction<'static, Postgres>>;

/// Begins a transaction with a statement such as `BEGIN READ ONLY`.
///
/// Whoever stops waiting for it, because a client left, leaves no transaction behind. After sqlx's own `begin`, a
/// connection whose server answers too late goes back to the pool in an open transaction: its next statements are read
/// from that transaction's snapshot, are not committed, or fail where it is read-only.
///
/// # Errors
/// The database is unavailable.
pub async fn begin(pool: &PgPool, statement: &'static str) -> Begun {
    let connection = pool.acquire().await?;
    let answer =
        async move { Transaction::begin(connection, Some(sqlx::SqlSafeStr::into_sql_str(statement))).await };
    Beginning(Some(answer.boxed())).await
}

/// Waits for the server's answer, also after it was dropped; the transaction is rolled back then.
struct Beginning(Option<BoxFuture<'static, Begun>>);

impl Future for Beginning {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Begun> {
        let Some(answer) = &mut self.0 else { return Poll::Pending };
        let begun = std::task::ready!(answer.as_mut().poll(context));
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
