//! Lists of documents. Every list is joined to what the caller may see before it is searched or counted.

use contract::id::MemberId;
use contract::page::{Page, PageRequest};
use service::clients::org::MemberContext;
use service::{ApiError, Permit, page};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{DocumentId, GeneralAccess, Looker, Role, State, StoredDocument, View, words_of};
use crate::folders::rules::FolderId;
use crate::store::subject;
use crate::visibility;

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

struct Row {
    id: Uuid,
    title: String,
    current_version: i32,
    owner_kc_sub: String,
    owner_member_id: Uuid,
    owner_label: Option<String>,
    general_access: String,
    editors_can_share: bool,
    is_template: bool,
    folder_id: Option<Uuid>,
    trashed_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    updated_by: String,
    share_count: i64,
    total: i64,
}

/// A document and the caller's role.
pub(super) type Listed = (StoredDocument, Option<Role>);

/// One page of the selected documents, most recently changed first.
pub(super) async fn page(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    request: PageRequest,
) -> Result<Page<Listed>, ApiError> {
    let (state, looker) = (selection.view.state(), &selection.looker);
    let rows = |limit, offset| rows(pool, permit, selection, limit, offset);
    let found = page::load(request, rows, |row| row.total, |row| document(permit, state, row)).await?;
    let ids: Vec<DocumentId> = found.items.iter().map(|document| document.id).collect();
    let ranks = visibility::ranks(pool, permit, looker, &ids).await?;
    let role = |document: StoredDocument| {
        let rank = ranks.get(&document.id).copied().unwrap_or_default();
        let role = Role::of(&document, looker, rank);
        (document, role)
    };
    let total = found.total;
    Ok(Page::new(request, found.items.into_iter().map(role).collect(), total))
}

async fn rows(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<Row>> {
    let window = (limit, offset);
    let mut tx = pool.begin().await?;
    let is_filtered = selection.search.is_some() || selection.folder.is_some() || selection.templates;
    // Most of these statements fix the order of their steps, so a generic plan suits any values, and custom planning
    // would take longer than execution; JIT compilation or parallel workers would cost a hundred times as much. For a
    // manager's filtered list, the best index depends on the filter, so it gets a custom plan. A statement that takes a second
    // is cancelled (503), because the lists of other callers wait for its turn.
    let plan =
        if selection.view.is_managers() && is_filtered { "force_custom_plan" } else { "force_generic_plan" };
    sqlx::query!(
        "SELECT set_config('plan_cache_mode', $1, true) AS planned, set_config('enable_seqscan', 'off', true) AS scanned,
           set_config('jit', 'off', true) AS compiled, set_config('max_parallel_workers_per_gather', '0', true) AS shared,
           set_config('statement_timeout', '1000', true) AS timed",
        plan
    )
    .fetch_one(&mut *tx)
    .await?;
    let found = match (selection.view, is_filtered) {
        (View::All | View::TrashAll, false) => all(&mut tx, permit, selection, window).await?,
        (View::All | View::TrashAll, true) => some_of_all(&mut tx, permit, selection, window).await?,
        (View::Mine | View::Trash, false) => own(&mut tx, permit, selection, window).await?,
        (View::Shared | View::Visible, false) => visible(&mut tx, permit, selection, window).await?,
        (_, true) => some_of_visible(&mut tx, permit, selection, window).await?,
    };
    tx.commit().await?;
    Ok(found)
}

/// A statement whose head defines the tables `page(id, updated_at)` and `length(total)`; `$1` is the company.
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

/// Like `listed!`, for documents that the caller can reach. The head continues from `opened(document_id, folder_id)`,
/// everything shared with the caller, and `within(folder_id)`, the folders that the caller reaches. `$2` to `$6` are
/// the subject, its member, positions and groups, and whether shares count.
macro_rules! reachable {
    ($head:literal; $($value:expr),*) => {
        listed!(
            r#"WITH opened AS MATERIALIZED (
                 SELECT document_id, folder_id FROM docs.shares
                 WHERE $6::bool AND company_id = $1 AND member_id = $3::uuid AND kc_sub = $2 AND state <> 'pending'
                   AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor')
                 UNION ALL SELECT s.document_id, s.folder_id FROM unnest($4::uuid[]) AS held(id) CROSS JOIN LATERAL (
                   SELECT document_id, folder_id FROM docs.shares
                   WHERE company_id = $1 AND position_id = held.id AND state <> 'pending'
                     AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor') OFFSET 0) s WHERE $6
                 UNION ALL SELECT s.document_id, s.folder_id FROM unnest($5::uuid[]) AS joined(id) CROSS JOIN LATERAL (
                   SELECT document_id, folder_id FROM docs.shares
                   WHERE company_id = $1 AND group_id = joined.id AND state <> 'pending'
                     AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor') OFFSET 0) s WHERE $6),
               within AS MATERIALIZED (
                 SELECT DISTINCT a.folder_id FROM (
                   SELECT folder_id FROM opened WHERE folder_id IS NOT NULL
                   UNION ALL SELECT id FROM docs.folders
                     WHERE $6 AND company_id = $1 AND owner_kc_sub = $2 AND state <> 'pending') f
                 CROSS JOIN LATERAL (
                   SELECT folder_id FROM docs.folder_ancestors WHERE ancestor_id = f.folder_id OFFSET 0) a),"#
            $head;
            $($value),*
        )
    };
}

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

/// Documents open to the caller through a share, a folder, general access or, depending on the view, ownership. Documents
/// that are shared one by one are few enough to read each. Those of a folder, and those open through general access, may be
/// many, so they are read in the list's order; the former are counted in an index, the number of the latter is kept in
/// `document_counts`.
async fn visible(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let (member, positions, groups) = MemberContext::columns(selection.looker.member);
    let found = reachable!(
        r#"single AS MATERIALIZED (
             SELECT id, updated_at FROM docs.documents
               WHERE company_id = $1 AND id = ANY(ARRAY(SELECT document_id FROM opened WHERE document_id IS NOT NULL))
                 AND state = 'active' AND general_access = 'restricted' AND ($7::bool OR owner_kc_sub <> $2)
                 AND (folder_id IS NULL OR folder_id NOT IN (SELECT folder_id FROM within))
             UNION SELECT id, updated_at FROM docs.documents
               WHERE $7 AND company_id = $1 AND owner_kc_sub = $2 AND state = 'active' AND general_access = 'restricted'
                 AND (folder_id IS NULL OR folder_id NOT IN (SELECT folder_id FROM within))),
           page AS MATERIALIZED (
             SELECT id, updated_at FROM (
               SELECT id, updated_at FROM single
               UNION ALL SELECT d.id, d.updated_at FROM within w CROSS JOIN LATERAL (
                 SELECT id, updated_at FROM docs.documents
                 WHERE company_id = $1 AND folder_id = w.folder_id AND state = 'active'
                   AND general_access = 'restricted' AND ($7 OR owner_kc_sub <> $2)
                 ORDER BY updated_at DESC, id LIMIT $8::bigint + $9::bigint) d
               UNION ALL (
                 SELECT id, updated_at FROM docs.documents
                 WHERE company_id = $1 AND general_access <> 'restricted' AND state = 'active'
                   AND ($7 OR owner_kc_sub <> $2)
                 ORDER BY updated_at DESC, id LIMIT $8 + $9)) each
             ORDER BY updated_at DESC, id LIMIT $8 OFFSET $9),
           length AS MATERIALIZED (
             SELECT (SELECT count(*) FROM single)
               + (SELECT count(*) FROM within w CROSS JOIN LATERAL (
                   SELECT FROM docs.documents
                   WHERE company_id = $1 AND folder_id = w.folder_id AND state = 'active'
                     AND general_access = 'restricted' AND ($7 OR owner_kc_sub <> $2) OFFSET 0) d)
               + coalesce((SELECT open FROM docs.document_counts WHERE company_id = $1), 0)
               - (SELECT count(*) FROM docs.documents
                  WHERE NOT $7 AND company_id = $1 AND owner_kc_sub = $2 AND state = 'active'
                    AND general_access <> 'restricted') AS total)"#;
        permit.company.as_uuid(),
        permit.subject.as_str(),
        member,
        &positions,
        &groups,
        true,
        selection.view.has_own(),
        limit,
        offset
    );
    found.fetch_all(conn).await
}

/// Filters the same documents and, depending on the view, the caller's own in the trash. What the caller may see is
/// read with its titles from the list's indexes. How texts are searched depends on the words. The full-text index gives
/// all texts of the company that contain them. Each text that the caller may see is read instead when these are at most
/// 500, when a sample of the company's latest documents says that more texts than that contain the words, and when the
/// index has given more than twice as many.
async fn some_of_visible(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let view = selection.view;
    let (member, positions, groups) = MemberContext::columns(selection.looker.member);
    let found = reachable!(
        r#"reached AS MATERIALIZED (
             SELECT id, updated_at, title FROM docs.documents
               WHERE company_id = $1 AND id = ANY(ARRAY(SELECT document_id FROM opened WHERE document_id IS NOT NULL))
                 AND state = $8 AND ($7::bool OR owner_kc_sub <> $2)
                 AND ($10::uuid IS NULL OR folder_id = $10) AND (NOT $11::bool OR is_template)
             UNION SELECT d.id, d.updated_at, d.title FROM within w CROSS JOIN LATERAL (
               SELECT id, updated_at, title FROM docs.documents
               WHERE company_id = $1 AND folder_id = w.folder_id AND state = $8 AND ($7 OR owner_kc_sub <> $2)
                 AND (NOT $11 OR is_template) OFFSET 0) d
               WHERE $10 IS NULL OR w.folder_id = $10
             UNION SELECT id, updated_at, title FROM docs.documents
               WHERE $6 AND company_id = $1 AND general_access <> 'restricted' AND state = 'active'
                 AND ($7 OR owner_kc_sub <> $2) AND ($10 IS NULL OR folder_id = $10) AND (NOT $11 OR is_template)
             UNION SELECT id, updated_at, title FROM docs.documents
               WHERE $7 AND company_id = $1 AND owner_kc_sub = $2 AND state = $8
                 AND ($10 IS NULL OR folder_id = $10) AND (NOT $11 OR is_template)),
           size AS MATERIALIZED (SELECT count(*) AS documents FROM reached),
           is_common AS MATERIALIZED (
             SELECT (SELECT documents <= 500 FROM size)
               OR count(*) FILTER (WHERE c.is_hit)
                 * coalesce((SELECT active + trashed FROM docs.document_counts WHERE company_id = $1), 0)
                 > count(*) * (SELECT documents FROM size) AS value
             FROM (SELECT id FROM docs.documents WHERE $9::text IS NOT NULL AND company_id = $1 AND state = 'active'
               ORDER BY updated_at DESC, id LIMIT 64) r CROSS JOIN LATERAL (
               SELECT search @@ (SELECT websearch_to_tsquery('simple', $14)) AS is_hit FROM docs.contents
               WHERE document_id = r.id OFFSET 0) c),
           few AS MATERIALIZED (
             SELECT document_id FROM docs.contents
             WHERE NOT (SELECT value FROM is_common) AND company_id = $1
               AND search @@ (SELECT websearch_to_tsquery('simple', $14))
             LIMIT (SELECT 2 * documents + 1 FROM size)),
           each AS MATERIALIZED (
             SELECT $9 IS NOT NULL AND (value OR (SELECT count(*) FROM few) > 2 * (SELECT documents FROM size)) AS is_read
             FROM is_common),
           matched AS MATERIALIZED (
             SELECT document_id FROM docs.contents
             WHERE (SELECT is_read FROM each) AND document_id = ANY(ARRAY(SELECT id FROM reached))
               AND search @@ (SELECT websearch_to_tsquery('simple', $14))),
           wanted AS MATERIALIZED (
             SELECT id, updated_at FROM reached r
             WHERE $9 IS NULL OR strpos(lower(r.title), (SELECT lower($9))) > 0
               OR CASE WHEN (SELECT is_read FROM each) THEN r.id IN (SELECT document_id FROM matched)
                  ELSE r.id IN (SELECT document_id FROM few) END),
           page AS MATERIALIZED (
             SELECT id, updated_at FROM wanted ORDER BY updated_at DESC, id LIMIT $12 OFFSET $13),
           length AS MATERIALIZED (SELECT count(*) AS total FROM wanted)"#;
        permit.company.as_uuid(),
        permit.subject.as_str(),
        member,
        &positions,
        &groups,
        view.has_shared(),
        view.has_own(),
        view.state().word(),
        selection.search,
        selection.folder.map(FolderId::as_uuid),
        selection.templates,
        limit,
        offset,
        selection.search.map(words_of)
    );
    found.fetch_all(conn).await
}

/// Every document of the company; their number is kept in `document_counts`. Pages of the second half are read from the
/// end.
async fn all(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let found = listed!(
        r#"WITH length AS MATERIALIZED (
             SELECT coalesce((SELECT CASE $2 WHEN 'trashed' THEN trashed ELSE active END
               FROM docs.document_counts WHERE company_id = $1), 0) AS total),
           page AS MATERIALIZED (
             (SELECT id, updated_at FROM docs.documents
              WHERE company_id = $1 AND state = $2 AND (SELECT $4::bigint * 2 <= total FROM length)
              ORDER BY updated_at DESC, id LIMIT $3::bigint OFFSET $4)
             UNION ALL
             (SELECT id, updated_at FROM docs.documents
              WHERE company_id = $1 AND state = $2 AND (SELECT $4 * 2 > total FROM length)
              ORDER BY updated_at, id DESC LIMIT (SELECT greatest(least($3, total - $4), 0) FROM length)
              OFFSET (SELECT greatest(total - $4 - $3, 0) FROM length)))"#;
        permit.company.as_uuid(),
        selection.view.state().word(),
        limit,
        offset
    );
    found.fetch_all(conn).await
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
               AND (NOT $5::bool OR is_template) AND ($3::text IS NULL OR strpos(lower(title), lower($3)) > 0)),
           page AS MATERIALIZED (
             SELECT id, updated_at FROM wanted ORDER BY updated_at DESC, id LIMIT $6 OFFSET $7),
           length AS MATERIALIZED (SELECT count(*) AS total FROM wanted)"#;
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
