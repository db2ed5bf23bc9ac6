//! Queries and updates of due removals.

use sqlx::{PgConnection, PgExecutor, PgPool};

/// At most `limit` subjects after `after` whose account is to be removed, in order.
pub(super) async fn due_after(pool: &PgPool, after: &str, limit: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT kc_sub FROM identity.users WHERE account_removal = 'due' AND kc_sub > $1 ORDER BY kc_sub LIMIT $2",
        after,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Whether the account of this subject is to be removed.
pub(super) async fn is_due(db: impl PgExecutor<'_>, subject: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS(SELECT FROM identity.users WHERE kc_sub = $1 AND account_removal = 'due') AS "due!""#,
        subject
    )
    .fetch_one(db)
    .await
}

/// Stores that the account is gone; returns false if that was stored before.
pub(super) async fn settle(conn: &mut PgConnection, subject: &str) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "UPDATE identity.users SET account_removal = 'done', idp_enabled = false,
                idp_gone_at = coalesce(idp_gone_at, now()), idp_checked_at = now()
          WHERE kc_sub = $1 AND account_removal = 'due'",
        subject
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
