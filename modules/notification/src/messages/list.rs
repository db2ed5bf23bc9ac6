//! Pages of messages, newest first. The page's ids and the length of the list come from indexes alone, and only the
//! page's own rows are read: messages are kept for ever, and each may be long.

use contract::page::{Page, PageRequest};
use service::{ApiError, Permit, page};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Message, Sees};
use super::store::Row;

struct Found {
    id: Uuid,
    channel_id: Uuid,
    subject_line: String,
    body: String,
    created_by: String,
    created_at: OffsetDateTime,
    read_at: Option<OffsetDateTime>,
    total: i64,
}

/// Selects one page of the messages that `$which` describes and `$count` counts. `$1` is the company, `$2` and `$3` are
/// the page, `$4` is the caller. Rows are looked up one by one for any page length, because a generic plan must not
/// read the whole table.
macro_rules! page_of {
    ($pool:expr, $permit:expr, $limit:expr, $offset:expr, $seen:literal, $count:literal, $which:literal $(, $value:expr)*) => {
        sqlx::query_as!(
            Found,
            $seen + r#"SELECT m.id AS "id!", m.channel_id AS "channel_id!", m.subject_line AS "subject_line!", m.body AS "body!",
                 m.created_by AS "created_by!", m.created_at AS "created_at!", page.length AS "total!",
                 (SELECT read_at FROM notification.message_reads r WHERE r.message_id = m.id AND r.kc_sub = $4) AS read_at
               FROM (SELECT id, ("# + $count + r#") AS length FROM notification.messages WHERE company_id = $1 "# + $which + r#"
                 ORDER BY created_at DESC, id LIMIT $2::bigint OFFSET $3::bigint) AS page
               CROSS JOIN LATERAL (SELECT * FROM notification.messages WHERE id = page.id OFFSET 0) AS m
               ORDER BY m.created_at DESC, m.id"#,
            $permit.company.as_uuid(),
            $limit,
            $offset,
            $permit.subject.as_str()
            $(, $value)*
        )
        .fetch_all($pool)
        .await
    };
}

/// Lists one page of the messages that the caller sees.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    sees: Sees,
    page: PageRequest,
) -> Result<Page<Message>, ApiError> {
    let rows = |limit, offset| rows(pool, permit, sees, limit, offset);
    let message = |found: Found| {
        let row = Row {
            id: found.id,
            channel_id: found.channel_id,
            subject_line: found.subject_line,
            body: found.body,
            created_by: found.created_by,
            created_at: found.created_at,
            read_at: found.read_at,
        };
        Ok(row.message(permit.company))
    };
    page::load(page, rows, |row| row.total, message).await
}

/// Selects the rows of a page. `IS TRUE` makes the planner look the channels up in a hash, whatever it thinks of their
/// number.
async fn rows(
    pool: &PgPool,
    permit: &Permit,
    sees: Sees,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<Found>> {
    if sees.is_all() {
        return page_of!(
            pool,
            permit,
            limit,
            offset,
            "",
            "SELECT count(*) FROM notification.messages WHERE company_id = $1",
            ""
        );
    }
    page_of!(
        pool,
        permit,
        limit,
        offset,
        "WITH seen AS (
           SELECT c.id FROM notification.channels c WHERE c.company_id = $1 AND c.kind = 'in_app'
            UNION
           SELECT s.channel_id FROM notification.subscriptions s
            WHERE s.company_id = $1 AND s.member_id = $5 AND s.email IS NOT NULL
              AND coalesce(s.kc_sub, $4) = $4) ",
        "SELECT sum(counted.n)::bigint FROM seen CROSS JOIN LATERAL (
           SELECT count(*) AS n FROM notification.messages m WHERE m.channel_id = seen.id) AS counted",
        "AND (channel_id IN (SELECT seen.id FROM seen)) IS TRUE",
        sees.member()
    )
}
