//! Pages of the delivery log, newest first. The page's ids and the length of the list come from an index alone, and
//! only the page's own rows are read: counting a million deliveries takes as long as reading one of their wide columns
//! would.

use contract::page::{Page, PageRequest};
use service::{ApiError, Permit, page};
use sqlx::PgPool;

use super::rules::{Delivery, State};
use super::store::Row;
use crate::channels::rules::ChannelId;

/// Which deliveries to list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    pub(super) state: Option<State>,
    pub(super) channel: Option<ChannelId>,
}

/// Selects one page of the jobs that `$which` describes, with one statement per filter: an optional condition would
/// keep the planner from using the index. `$1` is the company, `$2` and `$3` are the page. Rows are looked up one by
/// one for any page length, because a generic plan must not read the whole table.
macro_rules! page_of {
    ($permit:expr, $limit:expr, $offset:expr, $which:literal $(, $value:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"SELECT j.id AS "id!", j.message_id AS "message_id!", j.channel_id AS "channel_id!", j.kind AS "kind!",
                 j.target AS "target!", j.state AS "state!", j.attempt_count AS "attempt_count!",
                 j.next_attempt_at AS "next_attempt_at!", j.last_status, j.error_class, j.replay_of,
                 j.created_at AS "created_at!", j.settled_at, page.length AS "total!"
               FROM (SELECT id, (SELECT count(*) FROM notification.delivery_jobs WHERE "# + $which + r#") AS length
                 FROM notification.delivery_jobs WHERE "# + $which + r#"
                 ORDER BY created_at DESC, id LIMIT $2::bigint OFFSET $3::bigint) AS page
               CROSS JOIN LATERAL (SELECT * FROM notification.delivery_jobs WHERE id = page.id OFFSET 0) AS j
               ORDER BY j.created_at DESC, j.id"#,
            $permit.company.as_uuid(),
            $limit,
            $offset
            $(, $value)*
        )
    };
}

/// Lists one page of deliveries.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    filter: Filter,
    page: PageRequest,
) -> Result<Page<Delivery>, ApiError> {
    let rows = |limit, offset| rows(pool, permit, filter, limit, offset);
    page::load(page, rows, |row| row.total, |row| row.delivery(permit.company)).await
}

async fn rows(
    pool: &PgPool,
    permit: &Permit,
    Filter { state, channel }: Filter,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<Row>> {
    match (state.map(State::word), channel.map(ChannelId::as_uuid)) {
        (None, None) => page_of!(permit, limit, offset, "company_id = $1").fetch_all(pool).await,
        (Some(state), None) => {
            let page = page_of!(permit, limit, offset, "company_id = $1 AND state = $4", state);
            page.fetch_all(pool).await
        }
        (None, Some(channel)) => {
            let page = page_of!(permit, limit, offset, "company_id = $1 AND channel_id = $4", channel);
            page.fetch_all(pool).await
        }
        (Some(state), Some(channel)) => {
            let both = page_of!(
                permit,
                limit,
                offset,
                "company_id = $1 AND state = $4 AND channel_id = $5",
                state,
                channel
            );
            both.fetch_all(pool).await
        }
    }
}
