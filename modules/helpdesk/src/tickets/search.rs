//! Searches tickets: words of title and description, and filters. Visible are the same tickets as in lists: an agent's all,
//! others' own. At most the newest [`MAX_ROWS`](super::rules::MAX_ROWS) of what is found.

use axum::extract::State;
use axum::response::Response;
use contract::id::parse_uuid;
use contract::page::{Page, PageRequest};
use service::clients::org::MemberContext;
use service::query::both;
use service::{ApiError, Permit, Query, page};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::list::answer;
use super::rules::{MAX_ROWS, Priority, Status};
use super::store;
use super::viewer::Viewer;
use crate::App;

/// Longest search.
const MAX_QUERY: usize = 200;
/// Tickets that are looked up one by one because a word is in them: about as many look-ups as finding the newest
/// [`MAX_ROWS`] of a word that is in twice as many of 200,000 tickets takes.
const MAX_AMONG: i64 = 10_000;

/// Whose tickets are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assignee {
    Any,
    /// The caller's own, of a position or of a group of the caller.
    Me,
    Unassigned,
    /// A member's, a position's or a group's.
    Of(Uuid),
}

struct Filters {
    /// For `to_tsquery`.
    words: Option<String>,
    status: Option<Status>,
    priority: Option<Priority>,
    assignee: Assignee,
}

pub(crate) async fn search(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Response, ApiError> {
    let (filters, page) = both(filters(&query), query.page())?;
    let mut viewer = Viewer::of(&app, &permit).await?;
    let sees_all = viewer.is_agent().await?;
    let scope = Scope { sees_all, caller: viewer.place.as_ref() };
    let (found, is_truncated) = find(&app.core.pool, &permit, &filters, &scope, page).await?;
    let tickets = store::of_ids(&app.core.pool, &permit, &found.items).await?;
    let items = viewer.all_shown(tickets).await?;
    Ok(answer(Page::new(page, items, found.total), is_truncated))
}

fn filters(query: &Query) -> Result<Filters, ApiError> {
    let ((text, status), (priority, assignee)) = both(
        both(query.text("q", MAX_QUERY), query.optional_word("status", Status::WORDS)),
        both(query.optional_word("priority", Priority::WORDS), assignee(query.get("assignee"))),
    )?;
    Ok(Filters { words: text.and_then(words), status, priority, assignee })
}

fn assignee(text: Option<&str>) -> Result<Assignee, ApiError> {
    let wrong = || ApiError::validation_field("assignee", "assignee", "me, none or a UUID");
    match text {
        None => Ok(Assignee::Any),
        Some("me") => Ok(Assignee::Me),
        Some("none") => Ok(Assignee::Unassigned),
        Some(text) => parse_uuid(text).map(Assignee::Of).ok_or_else(wrong),
    }
}

/// Every word has to be in a ticket; a word that is not a number may be the beginning of a longer one. `None`: no word.
fn words(text: &str) -> Option<String> {
    let word = |word: &str| {
        let is_number = word.trim_start_matches('#').bytes().all(|byte| byte.is_ascii_digit());
        let quoted = word.replace('\\', "\\\\").replace('\'', "''");
        if is_number { format!("'{quoted}'") } else { format!("'{quoted}':*") }
    };
    let words: Vec<String> = text.split_whitespace().map(word).collect();
    (!words.is_empty()).then(|| words.join(" & "))
}

/// What the caller sees.
struct Scope<'a> {
    sees_all: bool,
    caller: Option<&'a MemberContext>,
}

struct Hit {
    id: Uuid,
    total: i64,
}

/// One page of the ids that are found, and whether more are found than are counted.
async fn find(
    pool: &PgPool,
    permit: &Permit,
    filters: &Filters,
    scope: &Scope<'_>,
    page: PageRequest,
) -> Result<(Page<Uuid>, bool), ApiError> {
    let counted = i64::try_from(MAX_ROWS).map_err(ApiError::internal)?;
    let rows =
        |limit: i64, offset: i64| hits(pool, permit, filters, scope, (limit.min(counted - offset), offset));
    let mut found = page::load(page, rows, |hit| hit.total, |hit| Ok(hit.id)).await?;
    let is_truncated = found.total > counted;
    if is_truncated {
        found = Page::new(page, found.items, counted);
    }
    Ok((found, is_truncated))
}

/// What one statement asks.
struct Ask<'a> {
    company: Uuid,
    filters: &'a Filters,
    sees_all: bool,
    member: Option<Uuid>,
    positions: Vec<Uuid>,
    groups: Vec<Uuid>,
    of: Option<Uuid>,
    counted: i64,
    limit: i64,
    offset: i64,
}

/// Rows of hits; the head names the tables and begins the condition, `$14` is its own.
macro_rules! hits {
    ($head:literal, $ask:expr, $own:expr) => {
        sqlx::query_as!(
            Hit,
            r#"WITH found AS MATERIALIZED (SELECT t.id, t.updated_at "# + $head + r#"
                 t.company_id = $1 AND ($2::text IS NULL OR t.status = $2) AND ($3::text IS NULL OR t.priority = $3)
                 AND ($4::bool OR t.reporter_member_id = $5::uuid OR t.assignee_member_id = $5
                   OR t.assignee_position_id = ANY($6::uuid[]) OR t.assignee_group_id = ANY($7::uuid[]))
                 AND (NOT $8::bool OR t.assignee_member_id = $5 OR t.assignee_position_id = ANY($6)
                   OR t.assignee_group_id = ANY($7))
                 AND (NOT $9::bool OR t.assignee_kind IS NULL)
                 AND ($10::uuid IS NULL OR t.assignee_member_id = $10 OR t.assignee_position_id = $10
                   OR t.assignee_group_id = $10)
                 ORDER BY t.updated_at DESC, t.id LIMIT $11::bigint + 1)
               SELECT found.id, (SELECT count(*) FROM found) AS "total!"
               FROM found ORDER BY found.updated_at DESC, found.id LIMIT GREATEST($12::bigint, 0) OFFSET $13::bigint"#,
            $ask.company,
            $ask.filters.status.map(Status::word),
            $ask.filters.priority.map(Priority::word),
            $ask.sees_all,
            $ask.member,
            &$ask.positions,
            &$ask.groups,
            $ask.filters.assignee == Assignee::Me,
            $ask.filters.assignee == Assignee::Unassigned,
            $ask.of,
            $ask.counted,
            $ask.limit,
            $ask.offset,
            $own
        )
    };
}

/// Planned anew for these values each time: which index is the right one depends on which filters are there. No table is
/// read whole, however common a word is: words in few tickets lead to those, words in many are looked for in the newest
/// tickets first. Others' own tickets are few enough to look into each.
async fn hits(
    pool: &PgPool,
    permit: &Permit,
    filters: &Filters,
    scope: &Scope<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Hit>> {
    let mut tx = pool.begin().await?;
    sqlx::query!(
        "SELECT set_config('plan_cache_mode', 'force_custom_plan', true) AS planned,
           set_config('enable_seqscan', 'off', true) AS scanned"
    )
    .fetch_one(&mut *tx)
    .await?;
    let (member, positions, groups) = MemberContext::columns(scope.caller);
    let of = if let Assignee::Of(id) = filters.assignee { Some(id) } else { None };
    let ask = Ask {
        company: permit.company.as_uuid(),
        filters,
        sees_all: scope.sees_all,
        member,
        positions,
        groups,
        of,
        counted: i64::try_from(MAX_ROWS).unwrap_or(i64::MAX),
        limit,
        offset,
    };
    let few = match &filters.words {
        Some(words) if scope.sees_all => with_words(&mut tx, permit, words).await?,
        Some(_) | None => None,
    };
    let found = match few {
        Some(few) => among(&mut tx, &ask, &few).await?,
        None => newest(&mut tx, &ask).await?,
    };
    tx.commit().await?;
    Ok(found)
}

/// Of these tickets.
async fn among(conn: &mut PgConnection, ask: &Ask<'_>, few: &[Uuid]) -> sqlx::Result<Vec<Hit>> {
    let found = hits!(
        "FROM unnest($14::uuid[]) AS hit(id)
           CROSS JOIN LATERAL (SELECT id, company_id, status, priority, updated_at, reporter_member_id, assignee_kind,
             assignee_member_id, assignee_position_id, assignee_group_id
             FROM helpdesk.tickets WHERE company_id = $1 AND id = hit.id OFFSET 0) AS t
         WHERE",
        ask,
        few
    );
    found.fetch_all(conn).await
}

/// Of all tickets that the caller may see, from the newest on.
async fn newest(conn: &mut PgConnection, ask: &Ask<'_>) -> sqlx::Result<Vec<Hit>> {
    let found = hits!(
        "FROM helpdesk.tickets t WHERE ($14::text IS NULL OR (SELECT w.words @@ to_tsquery('simple', $14)
           FROM helpdesk.ticket_words w WHERE w.ticket_id = t.id)) AND",
        ask,
        ask.filters.words.as_deref()
    );
    found.fetch_all(conn).await
}

/// The tickets of the company with these words; `None`: they are in more than [`MAX_AMONG`].
async fn with_words(
    conn: &mut PgConnection,
    permit: &Permit,
    words: &str,
) -> sqlx::Result<Option<Vec<Uuid>>> {
    let found = sqlx::query_scalar!(
        "SELECT ticket_id FROM helpdesk.ticket_words
         WHERE words @@ to_tsquery('simple', $2) AND company_id = $1 LIMIT $3",
        permit.company.as_uuid(),
        words,
        MAX_AMONG + 1
    );
    let found = found.fetch_all(conn).await?;
    let is_common = i64::try_from(found.len()).is_ok_and(|found| found > MAX_AMONG);
    Ok((!is_common).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_quoted_and_begins_another_unless_it_is_a_number() {
        assert_eq!(words("  "), None);
        assert_eq!(words("printer  fire").as_deref(), Some("'printer':* & 'fire':*"));
        assert_eq!(words("#12 it's a\\b").as_deref(), Some("'#12' & 'it''s':* & 'a\\\\b':*"));
        assert_eq!(words("& | ! <->").as_deref(), Some("'&':* & '|':* & '!':* & '<->':*"));
    }
}
