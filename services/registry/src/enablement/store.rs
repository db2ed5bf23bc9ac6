//! SQL of enabling and disabling. Changing a module's state requires the catalog's lock.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::rules::{Enabling, Progress, Standing};

pub(super) async fn find(conn: &mut PgConnection, key: &str) -> sqlx::Result<Option<Standing>> {
    sqlx::query_as!(
        Standing,
        r#"SELECT m.key, m.kind, m.mandatory, m.installed, m.enabled, e.key IS NOT NULL AS "enabling!"
             FROM registry.modules m LEFT JOIN registry.enabling e ON e.key = m.key WHERE m.key = $1"#,
        key
    )
    .fetch_optional(conn)
    .await
}

/// Stores the flag, marks the module as installed, and ends its enabling.
pub(super) async fn set_enabled(conn: &mut PgConnection, key: &str, enabled: bool) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE registry.modules SET installed = true, enabled = $2, updated_at = now() WHERE key = $1",
        key,
        enabled
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!("DELETE FROM registry.enabling WHERE key = $1", key).execute(conn).await?;
    Ok(())
}

/// Records the beginning of an enabling; does nothing if one is in progress.
pub(crate) async fn begin_enabling(
    conn: &mut PgConnection,
    key: &str,
    actor: &str,
    correlation: Option<&str>,
    total: i64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO registry.enabling(key, requested_by, correlation_id, companies_total) VALUES ($1, $2, $3, $4)
         ON CONFLICT (key) DO NOTHING",
        key,
        actor,
        correlation,
        total
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the progress of an enabling, if one is in progress.
pub(super) async fn progress(conn: &mut PgConnection, key: &str) -> sqlx::Result<Option<Progress>> {
    sqlx::query_as!(
        Progress,
        "SELECT companies_done AS done, companies_total AS total FROM registry.enabling WHERE key = $1",
        key
    )
    .fetch_optional(conn)
    .await
}

/// Returns the enabling that was requested first.
pub(super) async fn next_enabling(pool: &PgPool) -> sqlx::Result<Option<Enabling>> {
    sqlx::query_as!(
        Enabling,
        "SELECT key, requested_by, correlation_id FROM registry.enabling ORDER BY requested_at, key LIMIT 1"
    )
    .fetch_optional(pool)
    .await
}

/// Locks the enabling and returns the company after which the next portion begins; `None` if another process is writing
/// that portion or the enabling was cancelled.
pub(super) async fn claim(conn: &mut PgConnection, key: &str) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!(
        "SELECT after_company FROM registry.enabling WHERE key = $1 FOR UPDATE SKIP LOCKED",
        key
    )
    .fetch_optional(conn)
    .await
}

/// Records that the portion up to `end` is written.
pub(super) async fn advance(conn: &mut PgConnection, key: &str, end: Uuid, written: i64) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE registry.enabling SET after_company = $2, companies_done = companies_done + $3 WHERE key = $1",
        key,
        end,
        written
    )
    .execute(conn)
    .await?;
    Ok(())
}
