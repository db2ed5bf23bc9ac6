//! `notification.channels`. Keys are ordered by code point, so that a list has one order on every machine.

use contract::page::{Page, PageRequest};
use service::{ApiError, Permit, page};
use sqlx::PgPool;

use super::rules::Channel;

/// One page of the channels that are not deleted, targets included.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    page: PageRequest,
) -> Result<Page<Channel>, ApiError> {
    let rows = |limit: i64, offset: i64| {
        sqlx::query!(
            r#"SELECT id, key, label, kind, target, created_at, count(*) OVER () AS "total!"
           FROM notification.channels WHERE company_id = $1 AND deleted_at IS NULL
           ORDER BY key COLLATE "C", id LIMIT $2 OFFSET $3"#,
            permit.company.as_uuid(),
            limit,
            offset
        )
        .fetch_all(pool)
    };
    let found = page::load(
        page,
        rows,
        |row| row.total,
        |row| {
            Ok(Channel {
                id: row.id.into(),
                company_id: permit.company,
                key: row.key,
                label: row.label,
                kind: row.kind,
                target: row.target,
                created_at: row.created_at.into(),
            })
        },
    );
    found.await
}
