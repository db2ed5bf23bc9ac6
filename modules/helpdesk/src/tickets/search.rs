//! Searches tickets by words of title and description and by filters. Agents search all tickets, others their own, as
//! in lists. Shows at most the newest [`MAX_ROWS`](super::rules::MAX_ROWS) results, last change first.
//!
//! A search reads a bounded number of tickets, however common its words and however wide its filters. Words are looked
//! up from the newest ticket on ([`super::words`]), or in the newest tickets that pass the filters: always for callers
//! who search their own tickets, whose search must not tell by its time which words others' tickets have, and for agents
//! when the words are frequent. When more tickets have the words and pass the filters than are read, the response says
//! that there may be more.

use axum::extract::State;
use axum::response::Response;
use contract::id::parse_uuid;
use contract::page::{Page, PageRequest};
use service::clients::org::MemberContext;
use service::query::both;
use service::{ApiError, LimitedRead, Permit, Query, transaction};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::list::answer;
use super::rules::{MAX_ROWS, Priority, Status};
use super::store;
use super::viewer::Viewer;
use super::words::{self, Hit, WordQuery, Words};
use crate::App;

/// Longest search text, in characters.
const MAX_QUERY: usize = 200;
/// Tickets that a search always reads one by one, whether they come from the words or from the filters: a few
/// milliseconds. When both sides have more, the filters are applied to the newest [`FEW`] with the words.
const FEW: i64 = 1_500;
/// Frequent words, and the words of one's own tickets, are looked for in the newest [`MANY`] tickets that pass the filters
/// instead.
const MANY: i64 = 5_000;
/// The newest tickets with the words that tell whether the words are frequent.
const SAMPLE: i64 = 200;
/// Words are frequent when at least every fifth ticket has them: then the newest [`MANY`] tickets that pass the filters
/// contain as many results as a search shows.
const FREQUENT: i64 = 5;

/// The filter on assignees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assignee {
    Any,
    /// The caller, or a position or group of the caller.
    Me,
    Unassigned,
    /// A member, a position or a group.
    Of(Uuid),
}

struct Filters {
    words: Option<Words>,
    status: Option<Status>,
    priority: Option<Priority>,
    assignee: Assignee,
}

pub(crate) async fn search(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Response, ApiError> {
    let (filters, page) = both(filters(&query), query.page())?;
    let (viewer, sees_all) = Viewer::and_agent(&app, &permit).await?;
    let scope = Scope { sees_all, caller: viewer.place.as_ref() };
    let found = find(&app.core.pool, &permit, &filters, &scope).await?;
    let tickets = store::of_ids(&app.core.pool, &permit, found.page(page)?).await?;
    let items = viewer.all_shown(tickets).await?;
    Ok(answer(Page::new(page, items, found.total()?), found.is_truncated()))
}

fn filters(query: &Query) -> Result<Filters, ApiError> {
    let ((text, status), (priority, assignee)) = both(
        both(query.text("q", MAX_QUERY), query.optional_word("status", Status::WORDS)),
        both(query.optional_word("priority", Priority::WORDS), assignee(query.get("assignee"))),
    )?;
    Ok(Filters { words: text.and_then(Words::of), status, priority, assignee })
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

/// Which tickets the caller may see.
struct Scope<'a> {
    sees_all: bool,
    caller: Option<&'a MemberContext>,
}

/// The results of a search, last change first: at most one more than it may show.
struct Found {
    ids: Vec<Uuid>,
    /// Whether older tickets were not read.
    is_cut: bool,
}

impl Found {
    fn shown(&self) -> &[Uuid] {
        self.ids.get(..MAX_ROWS).unwrap_or(&self.ids)
    }

    fn total(&self) -> Result<i64, ApiError> {
        i64::try_from(self.shown().len()).map_err(ApiError::internal)
    }

    fn page(&self, page: PageRequest) -> Result<&[Uuid], ApiError> {
        let [offset, limit] = [page.offset(), page.limit()].map(usize::try_from);
        let rest = self.shown().get(offset.map_err(ApiError::internal)?..).unwrap_or_default();
        Ok(rest.get(..limit.map_err(ApiError::internal)?).unwrap_or(rest))
    }

    fn is_truncated(&self) -> bool {
        self.is_cut || self.ids.len() > MAX_ROWS
    }
}

/// The parameters of the statements.
struct Ask<'a> {
    company: Uuid,
    filters: &'a Filters,
    sees_all: bool,
    member: Option<Uuid>,
    positions: Vec<Uuid>,
    groups: Vec<Uuid>,
    of: Option<Uuid>,
}

impl<'a> Ask<'a> {
    fn new(permit: &Permit, filters: &'a Filters, scope: &Scope<'_>) -> Self {
        let (member, positions, groups) = MemberContext::columns(scope.caller);
        let of = if let Assignee::Of(id) = filters.assignee { Some(id) } else { None };
        let (company, sees_all) = (permit.company.as_uuid(), scope.sees_all);
        Self { company, filters, sees_all, member, positions, groups, of }
    }

    /// Whether only tickets that are the caller's pass the filters.
    fn is_personal(&self) -> bool {
        !self.sees_all || self.filters.assignee == Assignee::Me
    }

    /// Whether every ticket of the company passes the filters.
    fn is_wide(&self) -> bool {
        let Filters { status, priority, assignee, .. } = self.filters;
        self.sees_all && status.is_none() && priority.is_none() && *assignee == Assignee::Any
    }
}

/// Runs the search.
async fn find(
    pool: &PgPool,
    permit: &Permit,
    filters: &Filters,
    scope: &Scope<'_>,
) -> Result<Found, ApiError> {
    let mut tx = transaction::begin(pool, "BEGIN").await?;
    let query = words::query(&mut tx, filters.words.as_ref()).await?;
    let ask = Ask::new(permit, filters, scope);
    let found = match (&filters.words, query) {
        (None, _) => Found { ids: newest(&mut tx, &ask, one_more()?).await?, is_cut: false },
        (Some(_), Some(query)) => with_words(&mut tx, &ask, &query).await?,
        (Some(_), None) => Found { ids: Vec::new(), is_cut: false },
    };
    tx.commit().await?;
    Ok(found)
}

/// One more than a search may show, to detect truncation.
fn one_more() -> Result<i64, ApiError> {
    Ok(i64::try_from(MAX_ROWS).map_err(ApiError::internal)? + 1)
}

async fn with_words(conn: &mut PgConnection, ask: &Ask<'_>, query: &WordQuery) -> Result<Found, ApiError> {
    if ask.is_wide() {
        let hits = words::newest(conn, ask.company, query, one_more()?).await?;
        return Ok(Found { ids: among(conn, ask, &hits).await?, is_cut: false });
    }
    if !ask.sees_all {
        return within(conn, ask, query, MANY).await;
    }
    let sample = words::newest(conn, ask.company, query, SAMPLE + 1).await?;
    if !is_over(sample.len(), SAMPLE) {
        return Ok(Found { ids: among(conn, ask, &sample).await?, is_cut: false });
    }
    if are_frequent(&sample) {
        return within(conn, ask, query, MANY).await;
    }
    let mut hits = words::newest(conn, ask.company, query, FEW + 1).await?;
    if !is_over(hits.len(), FEW) {
        return Ok(Found { ids: among(conn, ask, &hits).await?, is_cut: false });
    }
    if count(conn, ask, FEW + 1).await? <= FEW {
        return within(conn, ask, query, FEW).await;
    }
    hits.pop();
    Ok(Found { ids: among(conn, ask, &hits).await?, is_cut: true })
}

fn is_over(found: usize, limit: i64) -> bool {
    i64::try_from(found).is_ok_and(|found| found > limit)
}

/// Whether hits, given newest first, are close together.
fn are_frequent(hits: &[Hit]) -> bool {
    let ends = hits.first().zip(hits.last());
    let hits = i64::try_from(hits.len()).unwrap_or(i64::MAX);
    ends.is_some_and(|(newest, oldest)| newest.number - oldest.number < hits.saturating_mul(FREQUENT))
}

/// A statement with the parameters of a search: `$1` to `$10` of the filters and the caller, `$11` the limit, then others.
macro_rules! asked {
    ($kind:ident, [$($sql:tt)+], $ask:expr, $limit:expr $(, $own:expr)*) => {
        sqlx::$kind!(
            $($sql)+,
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
            $limit
            $(, $own)*
        )
    };
}

/// Selects the tickets that pass the filters and that the caller may see, last change first; the head names the columns
/// and tables and begins the condition, the tail follows the limit.
macro_rules! passing {
    ($kind:ident, $head:literal, $tail:literal, $ask:expr, $limit:expr $(, $own:expr)*) => {
        asked!($kind, [$head + "
             t.company_id = $1 AND ($2::text IS NULL OR t.status = $2) AND ($3::text IS NULL OR t.priority = $3)
               AND ($4::bool OR t.reporter_member_id = $5::uuid OR t.assignee_member_id = $5
                 OR t.assignee_position_id = ANY($6::uuid[]) OR t.assignee_group_id = ANY($7::uuid[]))
               AND (NOT $8::bool OR t.assignee_member_id = $5 OR t.assignee_position_id = ANY($6)
                 OR t.assignee_group_id = ANY($7))
               AND (NOT $9::bool OR t.assignee_kind IS NULL)
               AND ($10::uuid IS NULL OR t.assignee_member_id = $10 OR t.assignee_position_id = $10
                 OR t.assignee_group_id = $10)
             ORDER BY t.updated_at DESC, t.id LIMIT $11" + $tail], $ask, $limit $(, $own)*)
    };
}

/// As [`passing`], where only tickets that are the caller's pass: each way in which a ticket can be the caller's is read
/// by its own index, which has what most filters ask. The tail follows the limit.
macro_rules! personal {
    ($kind:ident, $head:literal, $tail:literal, $ask:expr, $limit:expr $(, $own:expr)*) => {
        asked!($kind, [$head + " FROM (
             (SELECT id, updated_at FROM helpdesk.tickets
               WHERE company_id = $1 AND reporter_member_id = $5::uuid AND NOT $4::bool AND NOT $8::bool
                 AND ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR priority = $3)
                 AND (NOT $9::bool OR assignee_kind IS NULL)
                 AND ($10::uuid IS NULL OR assignee_member_id = $10 OR assignee_position_id = $10 OR assignee_group_id = $10)
               ORDER BY updated_at DESC, id LIMIT $11)
             UNION
             (SELECT id, updated_at FROM helpdesk.tickets
               WHERE company_id = $1 AND assignee_member_id = $5 AND NOT $9
                 AND ($2 IS NULL OR status = $2) AND ($3 IS NULL OR priority = $3)
                 AND ($10 IS NULL OR assignee_member_id = $10)
               ORDER BY updated_at DESC, id LIMIT $11)
             UNION
             (SELECT of_position.id, of_position.updated_at FROM unnest($6::uuid[]) AS held(id)
               CROSS JOIN LATERAL (SELECT id, updated_at FROM helpdesk.tickets
                 WHERE company_id = $1 AND assignee_position_id = held.id AND NOT $9
                   AND ($2 IS NULL OR status = $2) AND ($3 IS NULL OR priority = $3)
                   AND ($10 IS NULL OR assignee_position_id = $10)
                 ORDER BY updated_at DESC, id LIMIT $11) AS of_position)
             UNION
             (SELECT of_group.id, of_group.updated_at FROM unnest($7::uuid[]) AS joined(id)
               CROSS JOIN LATERAL (SELECT id, updated_at FROM helpdesk.tickets
                 WHERE company_id = $1 AND assignee_group_id = joined.id AND NOT $9
                   AND ($2 IS NULL OR status = $2) AND ($3 IS NULL OR priority = $3)
                   AND ($10 IS NULL OR assignee_group_id = $10)
                 ORDER BY updated_at DESC, id LIMIT $11) AS of_group)
           ) AS own ORDER BY own.updated_at DESC, own.id LIMIT $11" + $tail], $ask, $limit $(, $own)*)
    };
}

/// Selects among all tickets.
async fn newest(conn: &mut PgConnection, ask: &Ask<'_>, limit: i64) -> sqlx::Result<Vec<Uuid>> {
    if ask.is_personal() {
        personal!(query_scalar, r#"SELECT own.id AS "id!""#, "", ask, limit).fetch_all(conn).await
    } else {
        passing!(query_scalar, "SELECT t.id FROM helpdesk.tickets t WHERE", "", ask, limit)
            .fetch_all(conn)
            .await
    }
}

/// Counts the tickets that pass, up to `most`; not for the caller's own, which are few.
async fn count(conn: &mut PgConnection, ask: &Ask<'_>, most: i64) -> sqlx::Result<i64> {
    let count = passing!(
        query_scalar,
        r#"SELECT count(*) AS "count!" FROM (SELECT FROM helpdesk.tickets t WHERE"#,
        ") AS passing",
        ask,
        most
    );
    count.fetch_one(conn).await
}

/// Looks for the words in the newest `most` tickets that pass. The second sort is of rows that are in order already, and
/// lets the planner stop at the limit.
macro_rules! with_words_of {
    ($rows:ident, $head:literal, $conn:expr, $ask:expr, $query:expr, $most:expr) => {{
        let found = $rows!(
            query,
            $head,
            r#")
           SELECT (SELECT count(*) FROM passing) AS "passing!", ARRAY(
             SELECT asked.id FROM (SELECT id, updated_at FROM passing ORDER BY updated_at DESC, id OFFSET 0) AS asked
              CROSS JOIN LATERAL (SELECT w.words, w.number FROM helpdesk.ticket_words w
                WHERE w.ticket_id = asked.id AND w.company_id = $1 OFFSET 0) AS w
              WHERE w.words @@ replace($12, E'\x01', right($1::uuid::text, 8) || '.' || to_hex(w.number / 4096) || '.')::tsquery
              ORDER BY asked.updated_at DESC, asked.id LIMIT $13) AS "ids!""#,
            $ask,
            $most + 1,
            $query.text(),
            one_more()?
        );
        let found = found.fetch_one($conn).await?;
        Found { ids: found.ids, is_cut: found.passing > $most }
    }};
}

/// Looks for the words in the newest `most` tickets that pass.
async fn within(
    conn: &mut PgConnection,
    ask: &Ask<'_>,
    query: &WordQuery,
    most: i64,
) -> Result<Found, ApiError> {
    Ok(if ask.is_personal() {
        with_words_of!(
            personal,
            "WITH passing AS MATERIALIZED (SELECT own.id, own.updated_at",
            conn,
            ask,
            query,
            most
        )
    } else {
        with_words_of!(
            passing,
            "WITH passing AS MATERIALIZED (SELECT t.id, t.updated_at FROM helpdesk.tickets t WHERE",
            conn,
            ask,
            query,
            most
        )
    })
}

/// Selects among these tickets; at most one more than a search may show. Each is looked up by the smaller of the
/// indexes on ids; the condition checks its company.
async fn among(conn: &mut PgConnection, ask: &Ask<'_>, hits: &[Hit]) -> Result<Vec<Uuid>, ApiError> {
    let ids: Vec<Uuid> = hits.iter().map(|hit| hit.ticket).collect();
    let found = passing!(
        query_scalar,
        "SELECT t.id FROM unnest($12::uuid[]) AS hit(id)
           CROSS JOIN LATERAL (SELECT id, company_id, status, priority, updated_at, reporter_member_id, assignee_kind,
             assignee_member_id, assignee_position_id, assignee_group_id
             FROM helpdesk.tickets WHERE id = hit.id OFFSET 0) AS t
         WHERE",
        "",
        ask,
        one_more()?,
        &ids
    );
    Ok(found.fetch_all(conn).await?)
}
