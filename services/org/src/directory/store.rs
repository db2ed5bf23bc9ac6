//! Reads of `org.members` for the directory.

use contract::Subject;
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::page::{MAX_PAGE_SIZE, Page, PageRequest};
use service::{Reads, transaction};
use uuid::Uuid;

use super::rules::{MAX_FOUND, MemberContext, MemberDirectoryEntry, Membership, Search};
use super::search;
use crate::App;

/// A row of the directory.
pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) display_name: String,
    pub(super) email: Option<String>,
    pub(super) has_linked_user: bool,
}

/// A row of the directory, with the total of all pages.
pub(super) struct CountedRow {
    pub(super) id: Uuid,
    pub(super) display_name: String,
    pub(super) email: Option<String>,
    pub(super) has_linked_user: bool,
    pub(super) total: i64,
}

impl From<CountedRow> for Row {
    fn from(row: CountedRow) -> Self {
        let CountedRow { id, display_name, email, has_linked_user, total: _ } = row;
        Self { id, display_name, email, has_linked_user }
    }
}

const _: () = assert!(MAX_PAGE_SIZE == 100, "the inner limit of `first`");

/// Begins the transaction of a search, whose statements read one snapshot. A statement that takes a second is cancelled
/// (503), because the searches of other callers wait for its turn. The best plan depends on how frequent the text is.
const BEGIN_SEARCH: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 1000; \
    SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_custom_plan";

/// Returns a page of the company's active members that match a search, and whether there are more matches than are shown.
pub(super) async fn page(
    app: &App,
    company: CompanyId,
    search: &Search,
    request: PageRequest,
) -> sqlx::Result<(Page<MemberDirectoryEntry>, bool)> {
    let reads = &app.core.reads;
    let Search::Text(text) = search else {
        let rows = if request.page == 1 {
            first(reads, company, request).await
        } else if search.is_brief(request) {
            near(reads, company, request).await
        } else {
            far(reads, company, request).await
        }?;
        let total = match rows.first().map(|row| row.total) {
            Some(total) => total,
            // A page past the end has no row to carry the total.
            None => count_all(reads, company).await?,
        };
        return Ok((page_of(rows.into_iter().map(Row::from), total, request), false));
    };
    let members = count_all(reads, company).await?;
    if members <= search::MAX_SCANNED {
        let (rows, total) = search::scanned(reads, company, text, request).await?;
        return Ok((page_of(rows.into_iter(), total, request), false));
    }
    let mut tx = transaction::begin(&app.core.pool, BEGIN_SEARCH).await?;
    let (rows, total) = search::page(&mut tx, company, text, request).await?;
    tx.commit().await?;
    Ok((page_of(rows.into_iter(), total.min(MAX_FOUND), request), total > MAX_FOUND))
}

fn page_of(rows: impl Iterator<Item = Row>, total: i64, request: PageRequest) -> Page<MemberDirectoryEntry> {
    let items = rows.map(|row| MemberDirectoryEntry {
        id: row.id.into(),
        display_name: row.display_name,
        email: row.email,
        has_linked_user: row.has_linked_user,
    });
    Page::new(request, items.collect(), total)
}

/// Reads the first page in index order, and the total from `org.member_counts`, because counting would read every row.
/// Without the inner limit, PostgreSQL expects the outer one to take a tenth of the company and plans the statement at each
/// execution, which takes longer than running it.
async fn first(reads: &Reads, company: CompanyId, request: PageRequest) -> sqlx::Result<Vec<CountedRow>> {
    sqlx::query_as!(
        CountedRow,
        r#"SELECT id, display_name, email, user_id IS NOT NULL AS "has_linked_user!",
                  (SELECT active FROM org.member_counts WHERE company_id = $1) AS "total!"
             FROM (SELECT id, display_name, email, user_id FROM org.members WHERE company_id = $1 AND is_active
                    ORDER BY display_name COLLATE "C", id LIMIT 100) m
            ORDER BY display_name COLLATE "C", id LIMIT $2"#,
        company.as_uuid(),
        request.limit(),
    )
    .fetch_all(reads)
    .await
}

/// As [`first`], for one of the next pages.
async fn near(reads: &Reads, company: CompanyId, request: PageRequest) -> sqlx::Result<Vec<CountedRow>> {
    sqlx::query_as!(
        CountedRow,
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

/// As [`near`], for a page with many members before it: they are passed over in the index alone, which takes an eighth of the
/// time. `OFFSET 0` has only the members of the page read.
async fn far(reads: &Reads, company: CompanyId, request: PageRequest) -> sqlx::Result<Vec<CountedRow>> {
    sqlx::query_as!(
        CountedRow,
        r#"WITH page AS MATERIALIZED (
             SELECT id, display_name FROM org.members WHERE company_id = $1 AND is_active
             ORDER BY display_name COLLATE "C", id LIMIT $2 OFFSET $3)
           SELECT m.id AS "id!", m.display_name AS "display_name!", m.email, m.user_id IS NOT NULL AS "has_linked_user!",
                  (SELECT active FROM org.member_counts WHERE company_id = $1) AS "total!"
             FROM page p CROSS JOIN LATERAL (
               SELECT id, display_name, email, user_id FROM org.members WHERE id = p.id OFFSET 0) m
            ORDER BY p.display_name COLLATE "C", p.id"#,
        company.as_uuid(),
        request.limit(),
        request.offset(),
    )
    .fetch_all(reads)
    .await
}

async fn count_all(reads: &Reads, company: CompanyId) -> sqlx::Result<i64> {
    let kept =
        sqlx::query_scalar!("SELECT active FROM org.member_counts WHERE company_id = $1", company.as_uuid());
    kept.fetch_optional(reads).await.map(Option::unwrap_or_default)
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
