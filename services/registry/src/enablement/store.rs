//! SQL of enabling and disabling. The caller holds the catalog's lock.

use sqlx::PgConnection;

use super::rules::Standing;

pub(super) async fn find(conn: &mut PgConnection, key: &str) -> sqlx::Result<Option<Standing>> {
    sqlx::query_as!(
        Standing,
        "SELECT key, kind, mandatory, installed, enabled FROM registry.modules WHERE key = $1",
        key
    )
    .fetch_optional(conn)
    .await
}

pub(super) async fn set_enabled(conn: &mut PgConnection, key: &str, enabled: bool) -> sqlx::Result<()> {
    sqlx::query!("UPDATE registry.modules SET enabled = $2, updated_at = now() WHERE key = $1", key, enabled)
        .execute(conn)
        .await?;
    Ok(())
}
