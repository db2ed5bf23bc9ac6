//! Reads of `org.members` for the directory.

use contract::Subject;
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::page::{Page, PageRequest};
use service::Reads;
use sqlx::PgConnection;
use uuid::Uuid;

use super::letters;
use super::rules::{MemberContext, MemberDirectoryEntry, Membership, Search, Short};
use crate::App;

/// Number of members up to which a search for a short text scans the company. Above it, the index is cheaper, although
/// the index finds the members of all companies that have these letters.
const MAX_SCANNED: i64 = 5_000;

/// A row of the directory, with the total of the search.
pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) display_name: String,
    pub(super) email: Option<String>,
    pub(super) has_linked_user: bool,
    pub(super) total: i64,
}

/// Begins the transaction of a search. A statement that takes a second is cancelled (503), because the searches of other
/// callers wait for its turn.
const BEGIN_SEARCH: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = 1000; SET LOCAL jit = off";

/// Returns a page of the company's active members that match a search.
pub(super) async fn page(
    app: &App,
    company: CompanyId,
    search: &Search,
    request: PageRequest,
) -> sqlx::Result<Page<MemberDirectoryEntry>> {
    let reads = &app.core.reads;
    let (rows, total) = match search {
        Search::Everyone => {
            let rows = everyone(reads, company, request).await?;
            match rows.first().map(|row| row.total) {
                Some(total) => (rows, total),
                // A page past the end has no row to carry the total.
                None => (rows, count_all(reads, company).await?),
            }
        }
        Search::Short(short) => {
            let members = count_all(reads, company).await?;
            let mut tx = app.core.pool.begin_with(BEGIN_SEARCH).await?;
            let found = short_page(&mut tx, company, short, members, request).await?;
            tx.commit().await?;
            found
        }
        Search::Long(pattern) => {
            let mut tx = app.core.pool.begin_with(BEGIN_SEARCH).await?;
            let rows = long(&mut tx, company, pattern, request).await?;
            let total = match rows.first().map(|row| row.total) {
                Some(total) => total,
                None if request.offset() == 0 => 0,
                None => count(&mut tx, company, pattern).await?,
            };
            tx.commit().await?;
            (rows, total)
        }
    };
    Ok(page_of(rows, total, request))
}

/// Returns the page of a text without a trigram in a company with this many active members, and the number of matches.
async fn short_page(
    conn: &mut PgConnection,
    company: CompanyId,
    short: &Short,
    members: i64,
    request: PageRequest,
) -> sqlx::Result<(Vec<Row>, i64)> {
    if members > MAX_SCANNED {
        return letters::page(conn, company, short, members, request).await;
    }
    let rows = scanned(&mut *conn, company, &short.pattern, request).await?;
    let total = match rows.first().map(|row| row.total) {
        Some(total) => total,
        None if request.offset() == 0 => 0,
        None => letters::count(conn, company, short).await?,
    };
    Ok((rows, total))
}

fn page_of(rows: Vec<Row>, total: i64, request: PageRequest) -> Page<MemberDirectoryEntry> {
    let items = rows.into_iter().map(|row| MemberDirectoryEntry {
        id: row.id.into(),
        display_name: row.display_name,
        email: row.email,
        has_linked_user: row.has_linked_user,
    });
    Page::new(request, items.collect(), total)
}

/// Reads the page in index order, and the total from `org.member_counts`, because counting would read every row.
async fn everyone(reads: &Reads, company: CompanyId, request: PageRequest) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id, display_name, email, user_id IS NOT NULL AS "has_linked_user!",
                  (SELECT active FROM org.member_counts WHERE company_id = $1) AS "total!"
             FROM org.members WHERE company_id = $1 AND is_active
            ORDER BY display_name COLLATE "C", id LIMIT $2 OFFSET $3"#,
        company.as_uuid(),
        request.limit(),
        request.offset(),
    )
    .fetch_all(reads)
    .await
}

async fn scanned(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
    request: PageRequest,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"SELECT id, display_name, email, user_id IS NOT NULL AS "has_linked_user!", count(*) OVER () AS "total!"
             FROM org.members
            WHERE company_id = $1 AND is_active
              AND (display_name ILIKE $2 OR email ILIKE $2)
            ORDER BY display_name COLLATE "C", id LIMIT $3 OFFSET $4"#,
        company.as_uuid(),
        pattern,
        request.limit(),
        request.offset(),
    )
    .fetch_all(conn)
    .await
}

/// Searches with the index `members_search`; the query must repeat the index's expression exactly. Matches are counted, so
/// all of them are held, by what sorts them alone.
async fn long(
    conn: &mut PgConnection,
    company: CompanyId,
    pattern: &str,
    request: PageRequest,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"WITH found AS MATERIALIZED (
             SELECT id, display_name FROM org.members
              WHERE company_id = $1 AND is_active AND (display_name || E'\n' || coalesce(email, '')) ILIKE $2),
           page AS MATERIALIZED (SELECT id FROM found ORDER BY display_name COLLATE "C", id LIMIT $3 OFFSET $4)
           SELECT m.id, m.display_name, m.email, m.user_id IS NOT NULL AS "has_linked_user!",
                  (SELECT count(*) FROM found) AS "total!"
             FROM page JOIN org.members m ON m.id = page.id ORDER BY m.display_name COLLATE "C", m.id"#,
        company.as_uuid(),
        pattern,
        request.limit(),
        request.offset(),
    )
    .fetch_all(conn)
    .await
}

async fn count_all(reads: &Reads, company: CompanyId) -> sqlx::Result<i64> {
    let kept =
        sqlx::query_scalar!("SELECT active FROM org.member_counts WHERE company_id = $1", company.as_uuid());
    kept.fetch_optional(reads).await.map(Option::unwrap_or_default)
}

async fn count(conn: &mut PgConnection, company: CompanyId, pattern: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM org.members
            WHERE company_id = $1 AND is_active AND (display_name || E'\n' || coalesce(email, '')) ILIKE $2"#,
        company.as_uuid(),
        pattern,
    )
    .fetch_one(conn)
    .await
}

/// Returns the subject's membership in the company.
pub(super) async fn membership(
    reads: &Reads,
    company: CompanyId,
    subject: &Subject,
) -> sqlx::Result<Membership> {
    let row = sqlx::query!(
        "SELECT id, is_active FROM org.members WHERE company_id = $1 AND user_id = $2",
        company.as_uuid(),
        subject.as_str(),
    )
    .fetch_optional(reads)
    .await?;
    Ok(row.map(|row| member(row.id, row.is_active)).unwrap_or_default())
}

/// Returns the subject's membership with its positions and active groups, read in one statement.
pub(super) async fn context(
    reads: &Reads,
    company: CompanyId,
    subject: &Subject,
) -> sqlx::Result<MemberContext> {
    let row = sqlx::query!(
        r#"SELECT m.id, m.is_active, m.display_name, m.email,
                  ARRAY(SELECT a.position_id FROM org.assignments a
                         WHERE a.member_id = m.id AND a.valid_to IS NULL AND m.is_active
                         ORDER BY a.position_id) AS "position_ids!",
                  ARRAY(SELECT g.id FROM org.group_members gm JOIN org.groups g ON g.id = gm.group_id
                         WHERE gm.member_id = m.id AND g.is_active AND m.is_active ORDER BY g.id) AS "group_ids!"
             FROM org.members m WHERE m.company_id = $1 AND m.user_id = $2"#,
        company.as_uuid(),
        subject.as_str(),
    )
    .fetch_optional(reads)
    .await?;
    let Some(row) = row else { return Ok(MemberContext::default()) };
    Ok(MemberContext {
        membership: member(row.id, row.is_active),
        display_name: Some(row.display_name),
        email: row.email,
        position_ids: row.position_ids.into_iter().map(PositionId::from).collect(),
        group_ids: row.group_ids.into_iter().map(GroupId::from).collect(),
    })
}

fn member(id: impl Into<MemberId>, is_active: bool) -> Membership {
    Membership { is_member: true, is_active, member_id: Some(id.into()) }
}
