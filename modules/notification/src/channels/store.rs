//! `notification.channels`. Keys are ordered by code point, so that a list has one order on every machine.

use contract::page::{Page, PageRequest};
use service::{ApiError, Permit};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::Channel;

struct Row {
    id: Uuid,
    key: String,
    label: String,
    kind: String,
    target: Option<String>,
    created_at: OffsetDateTime,
    total: i64,
}

/// One page of the channels that are not deleted, targets included.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    page: PageRequest,
) -> Result<Page<Channel>, ApiError> {
    let rows = rows(pool, permit, page.limit(), page.offset()).await?;
    let total = match rows.first() {
        Some(row) => row.total,
        None => total(pool, permit).await?,
    };
    let items = rows.into_iter().map(|row| channel(permit, row)).collect();
    Ok(Page::new(page, items, total))
}

/// The length of the list; a page past its end does not tell it.
async fn total(pool: &PgPool, permit: &Permit) -> Result<i64, ApiError> {
    Ok(rows(pool, permit, 1, 0).await?.first().map_or(0, |row| row.total))
}

async fn rows(pool: &PgPool, permit: &Permit, limit: i64, offset: i64) -> Result<Vec<Row>, ApiError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, key, label, kind, target, created_at, count(*) OVER () AS "total!"
           FROM notification.channels WHERE company_id = $1 AND deleted_at IS NULL
           ORDER BY key COLLATE "C", id LIMIT $2 OFFSET $3"#,
        permit.company.as_uuid(),
        limit,
        offset
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

fn channel(permit: &Permit, row: Row) -> Channel {
    Channel {
        id: row.id.into(),
        company_id: permit.company,
        key: row.key,
        label: row.label,
        kind: row.kind,
        target: row.target,
        created_at: row.created_at.into(),
    }
}
