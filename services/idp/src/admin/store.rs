//! SQL of administration events, from which identity's account look learns of deletions.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::rules::Window;

/// An administration event.
#[derive(Debug)]
pub(crate) struct AdminEvent {
    pub(crate) id: Uuid,
    pub(crate) occurred_at: OffsetDateTime,
    pub(crate) operation: String,
    pub(crate) resource_type: String,
    pub(crate) resource_path: String,
    pub(crate) client_id: String,
    pub(crate) user_id: String,
}

pub(crate) async fn add(conn: &mut PgConnection, event: &AdminEvent) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO idp.admin_events(id, occurred_at, operation, resource_type, resource_path, client_id, user_id) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        event.id,
        event.occurred_at,
        event.operation,
        event.resource_type,
        event.resource_path,
        event.client_id,
        event.user_id
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Filter of a list; an empty list of words matches all events.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) operations: Vec<String>,
    pub(crate) resource_types: Vec<String>,
    pub(crate) from: Option<OffsetDateTime>,
}

/// One page, newest first.
pub(crate) async fn list(
    db: impl PgExecutor<'_>,
    filter: &Filter,
    window: Window,
) -> sqlx::Result<Vec<AdminEvent>> {
    sqlx::query_as!(
        AdminEvent,
        "SELECT id, occurred_at, operation, resource_type, resource_path, client_id, user_id \
         FROM idp.admin_events \
         WHERE (cardinality($1::text[]) = 0 OR operation = ANY($1)) \
         AND (cardinality($2::text[]) = 0 OR resource_type = ANY($2)) \
         AND ($3::timestamptz IS NULL OR occurred_at >= $3) \
         ORDER BY occurred_at DESC, id DESC OFFSET $4 LIMIT $5",
        &filter.operations,
        &filter.resource_types,
        filter.from,
        window.first,
        window.max
    )
    .fetch_all(db)
    .await
}

/// Removes at most `batch` events from before `limit`; returns how many.
pub(crate) async fn remove_before(
    conn: &mut PgConnection,
    limit: OffsetDateTime,
    batch: i64,
) -> sqlx::Result<u64> {
    let removed = sqlx::query!(
        "DELETE FROM idp.admin_events WHERE id IN \
         (SELECT id FROM idp.admin_events WHERE occurred_at < $1 LIMIT $2)",
        limit,
        batch
    )
    .execute(conn)
    .await?;
    Ok(removed.rows_affected())
}
