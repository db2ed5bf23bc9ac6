//! Lists of documents. Every list is joined to what the caller may see before it is searched or counted.

use contract::id::MemberId;
use contract::page::{Page, PageRequest};
use service::{ApiError, Permit, page, transaction};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::reached;
use super::rules::{GeneralAccess, Looker, State, StoredDocument, View};
use crate::folders::rules::FolderId;
use crate::store::subject;

/// Begins a transaction whose statements see one state of the database. Most of them fix the order of their steps, so a
/// generic plan suits any values, and custom planning would take longer than execution; JIT compilation or parallel
/// workers would cost a hundred times as much. A statement that takes a second is cancelled (503), because the lists of
/// other callers wait for its turn.
macro_rules! begin {
    ($plan:literal) => {
        concat!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL plan_cache_mode = ",
            $plan,
            "; SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0; \
             SET LOCAL statement_timeout = 1000"
        )
    };
}
const BEGIN_GENERIC: &str = begin!("force_generic_plan");
/// For a manager's filtered list, where the best index depends on the filter.
const BEGIN_CUSTOM: &str = begin!("force_custom_plan");

/// Which documents of the company to list.
pub(super) struct Selection<'a> {
    /// Which of the views.
    pub(super) view: View,
    /// A case-insensitive part of the title, or words of title and text.
    pub(super) search: Option<&'a str>,
    /// Only documents in this folder.
    pub(super) folder: Option<FolderId>,
    /// Only templates.
    pub(super) templates: bool,
    /// The caller.
    pub(super) looker: Looker<'a>,
}

pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) title: String,
    pub(super) current_version: i32,
    pub(super) owner_kc_sub: String,
    pub(super) owner_member_id: Uuid,
    pub(super) owner_label: Option<String>,
    pub(super) general_access: String,
    pub(super) editors_can_share: bool,
    pub(super) is_template: bool,
    pub(super) folder_id: Option<Uuid>,
    pub(super) trashed_at: Option<OffsetDateTime>,
    pub(super) created_at: OffsetDateTime,
    pub(super) updated_at: OffsetDateTime,
    pub(super) updated_by: String,
    pub(super) share_count: i64,
    pub(super) total: i64,
}

/// One page of the selected documents, most recently changed first.
pub(super) async fn page(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    request: PageRequest,
) -> Result<Page<StoredDocument>, ApiError> {
    let state = selection.view.state();
    let rows = |limit, offset| rows(pool, permit, selection, limit, offset);
    page::load(request, rows, |row| row.total, |row| document(permit, state, row)).await
}

async fn rows(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<Row>> {
    let window = (limit, offset);
    let is_filtered = selection.search.is_some() || selection.folder.is_some() || selection.templates;
    let begin = if selection.view.is_managers() && is_filtered { BEGIN_CUSTOM } else { BEGIN_GENERIC };
    let mut tx = transaction::begin(pool, begin).await?;
    let found = match (selection.view, is_filtered) {
        (View::All | View::TrashAll, false) => all(&mut tx, permit, selection, window).await?,
        (View::All | View::TrashAll, true) => some_of_all(&mut tx, permit, selection, window).await?,
        (View::Mine | View::Trash, false) => own(&mut tx, permit, selection, window).await?,
        (View::Shared | View::Visible, false) => reached::all(&mut tx, permit, selection, window).await?,
        (_, true) => reached::some(&mut tx, permit, selection, window).await?,
    };
    tx.commit().await?;
    Ok(found)
}

/// A statement whose head defines the tables `page(id, updated_at)` and `length(total)`; `$1` is the company. Where the
/// length costs as much as a page, a page past the end holds the last row of the list (see [`page::load`]).
macro_rules! listed {
    ($($head:literal)+; $($value:expr),*) => {
        sqlx::query_as!(
            Row,
            $($head +)+ r#"
             SELECT d.id AS "id!", d.title AS "title!", d.current_version AS "current_version!",
               d.owner_kc_sub AS "owner_kc_sub!", d.owner_member_id AS "owner_member_id!", d.owner_label,
               d.general_access AS "general_access!", d.editors_can_share AS "editors_can_share!",
               d.is_template AS "is_template!", d.folder_id, d.trashed_at, d.created_at AS "created_at!",
               d.updated_at AS "updated_at!", d.updated_by AS "updated_by!",
               (SELECT count(*) FROM docs.shares s
                WHERE s.document_id = d.id AND (s.state <> 'pending' OR s.attempts > 0)) AS "share_count!",
               (SELECT total FROM length) AS "total!"
             FROM page p CROSS JOIN LATERAL (
               SELECT * FROM docs.documents o WHERE o.company_id = $1 AND o.id = p.id OFFSET 0) d
             ORDER BY p.updated_at DESC, p.id"#,
            $($value),*
        )
    };
}

pub(super) use listed;

/// The caller's own documents.
async fn own(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let found = listed!(
        r#"WITH page AS MATERIALIZED (
             SELECT id, updated_at FROM docs.documents WHERE company_id = $1 AND owner_kc_sub = $2 AND state = $3
             ORDER BY updated_at DESC, id LIMIT $4 OFFSET $5),
           length AS MATERIALIZED (
             SELECT count(*) AS total FROM docs.documents
             WHERE company_id = $1 AND owner_kc_sub = $2 AND state = $3)"#;
        permit.company.as_uuid(),
        permit.subject.as_str(),
        selection.view.state().word(),
        limit,
        offset
    );
    found.fetch_all(conn).await
}

/// Every document of the company in one state, whose number is a column of `document_counts`. Pages of the second half
/// are read from the end. `LIMIT` selects the half: a condition would add a plan node that each skipped row passes. The
/// columns are those of the index, in its order: any others would be copied out of each skipped row.
macro_rules! every {
    ($state:literal, $number:literal; $($value:expr),*) => {
        listed!(
            "WITH length AS MATERIALIZED (
               SELECT coalesce((SELECT " $number " FROM docs.document_counts WHERE company_id = $1), 0) AS total),
             page AS MATERIALIZED (
               (SELECT company_id, updated_at, id FROM docs.documents
                WHERE company_id = $1 AND state = " $state "
                ORDER BY updated_at DESC, id
                LIMIT (SELECT CASE WHEN $3::bigint * 2 <= total THEN $2::bigint ELSE 0 END FROM length) OFFSET $3)
               UNION ALL
               (SELECT company_id, updated_at, id FROM docs.documents
                WHERE company_id = $1 AND state = " $state "
                ORDER BY updated_at, id DESC
                LIMIT (SELECT CASE WHEN $3 * 2 > total THEN greatest(least($2, total - $3), 0) ELSE 0 END FROM length)
                OFFSET (SELECT greatest(total - $3 - $2, 0) FROM length)))";
            $($value),*
        )
    };
}

async fn all(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let company = permit.company.as_uuid();
    match selection.view.state() {
        State::Trashed => every!("'trashed'", "trashed"; company, limit, offset).fetch_all(conn).await,
        State::Active | State::Provisioning => {
            every!("'active'", "active"; company, limit, offset).fetch_all(conn).await
        }
    }
}

/// Filters all documents of the company.
async fn some_of_all(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let found = listed!(
        r#"WITH wanted AS MATERIALIZED (
             SELECT id, updated_at FROM docs.documents
             WHERE company_id = $1 AND state = $2 AND ($4::uuid IS NULL OR folder_id = $4)
               AND (NOT $5::bool OR is_template) AND ($3::text IS NULL OR strpos(folded_title, lower($3)) > 0)),
           length AS MATERIALIZED (SELECT count(*) AS total FROM wanted),
           page AS MATERIALIZED (
             SELECT id, updated_at FROM wanted ORDER BY updated_at DESC, id
             LIMIT $6 OFFSET least($7, greatest((SELECT total FROM length) - 1, 0)))"#;
        permit.company.as_uuid(),
        selection.view.state().word(),
        selection.search,
        selection.folder.map(FolderId::as_uuid),
        selection.templates,
        limit,
        offset
    );
    found.fetch_all(conn).await
}

fn document(permit: &Permit, state: State, row: Row) -> Result<StoredDocument, ApiError> {
    Ok(StoredDocument {
        id: row.id.into(),
        company: permit.company,
        title: row.title,
        version: row.current_version,
        state,
        owner: subject(&row.owner_kc_sub)?,
        owner_member: MemberId::from(row.owner_member_id),
        owner_label: row.owner_label,
        general_access: GeneralAccess::of_word(&row.general_access)?,
        editors_can_share: row.editors_can_share,
        is_template: row.is_template,
        folder: row.folder_id.map(FolderId::from),
        share_count: row.share_count,
        trashed_at: row.trashed_at.map(Into::into),
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
        updated_by: row.updated_by,
    })
}
