//! Lists of the documents that the caller can reach: own ones, those shared directly or through a folder, and those that
//! general access opens. A first statement reads what is shared; the statement of the list takes it as parameters.

use service::Permit;
use service::clients::org::MemberContext;
use sqlx::PgConnection;
use uuid::Uuid;

use super::list::{Row, Selection, listed};
use super::rules::words_of;
use crate::folders::rules::FolderId;

/// What is open to the caller through shares and through own folders.
struct Reached {
    /// Documents that are shared one by one; one may occur more than once.
    documents: Vec<Uuid>,
    /// Folders that are shared with the caller or owned by the caller, and all folders within them.
    folders: Vec<Uuid>,
}

async fn reached(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
) -> sqlx::Result<Reached> {
    if !selection.view.has_shared() {
        return Ok(Reached { documents: Vec::new(), folders: Vec::new() });
    }
    let (member, positions, groups) = MemberContext::columns(selection.looker.member);
    sqlx::query_as!(
        Reached,
        r#"WITH opened AS MATERIALIZED (
             SELECT document_id, folder_id FROM docs.shares
             WHERE company_id = $1 AND member_id = $3::uuid AND kc_sub = $2 AND state <> 'pending'
               AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor')
             UNION ALL SELECT s.document_id, s.folder_id FROM unnest($4::uuid[]) AS held(id) CROSS JOIN LATERAL (
               SELECT document_id, folder_id FROM docs.shares
               WHERE company_id = $1 AND position_id = held.id AND state <> 'pending'
                 AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor') OFFSET 0) s
             UNION ALL SELECT s.document_id, s.folder_id FROM unnest($5::uuid[]) AS joined(id) CROSS JOIN LATERAL (
               SELECT document_id, folder_id FROM docs.shares
               WHERE company_id = $1 AND group_id = joined.id AND state <> 'pending'
                 AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor') OFFSET 0) s)
           SELECT ARRAY(SELECT document_id FROM opened WHERE document_id IS NOT NULL) AS "documents!: Vec<Uuid>",
             ARRAY(SELECT DISTINCT a.folder_id FROM (
                 SELECT folder_id FROM opened WHERE folder_id IS NOT NULL
                 UNION ALL SELECT id FROM docs.folders
                   WHERE company_id = $1 AND owner_kc_sub = $2 AND state <> 'pending') f
               CROSS JOIN LATERAL (
                 SELECT folder_id FROM docs.folder_ancestors WHERE ancestor_id = f.folder_id OFFSET 0) a)
               AS "folders!: Vec<Uuid>""#,
        permit.company.as_uuid(),
        permit.subject.as_str(),
        member,
        &positions,
        &groups
    )
    .fetch_one(conn)
    .await
}

/// Everything that the caller can reach. Documents that are shared one by one are few enough to read each. Those of a
/// folder, and those open through general access, may be many, so they are read in the list's order; the former are
/// counted in an index, the number of the latter is kept in `document_counts`.
pub(super) async fn all(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let open = reached(conn, permit, selection).await?;
    let found = listed!(
        r#"WITH single AS MATERIALIZED (
             SELECT id, updated_at FROM docs.documents
               WHERE company_id = $1 AND id = ANY($3::uuid[])
                 AND state = 'active' AND general_access = 'restricted' AND owner_kc_sub <> $2
                 AND (folder_id IS NULL OR folder_id NOT IN (SELECT unnest($4::uuid[])))
             UNION ALL SELECT id, updated_at FROM docs.documents
               WHERE $5::bool AND company_id = $1 AND owner_kc_sub = $2 AND state = 'active' AND general_access = 'restricted'
                 AND (folder_id IS NULL OR folder_id NOT IN (SELECT unnest($4)))),
           length AS MATERIALIZED (
             SELECT (SELECT count(*) FROM single)
               + (SELECT count(*) FROM unnest($4) AS within(folder_id) CROSS JOIN LATERAL (
                   SELECT FROM docs.documents
                   WHERE company_id = $1 AND folder_id = within.folder_id AND state = 'active'
                     AND general_access = 'restricted' AND ($5 OR owner_kc_sub <> $2) OFFSET 0) d)
               + coalesce((SELECT open FROM docs.document_counts WHERE company_id = $1), 0)
               - (SELECT count(*) FROM docs.documents
                  WHERE NOT $5 AND company_id = $1 AND owner_kc_sub = $2 AND state = 'active'
                    AND general_access <> 'restricted') AS total),
           page AS MATERIALIZED (
             SELECT id, updated_at FROM (
               SELECT id, updated_at FROM single
               UNION ALL SELECT d.id, d.updated_at FROM unnest($4) AS within(folder_id) CROSS JOIN LATERAL (
                 SELECT id, updated_at FROM docs.documents
                 WHERE company_id = $1 AND folder_id = within.folder_id AND state = 'active'
                   AND general_access = 'restricted' AND ($5 OR owner_kc_sub <> $2)
                 ORDER BY updated_at DESC, id LIMIT $6::bigint + $7::bigint) d
               UNION ALL (
                 SELECT id, updated_at FROM docs.documents
                 WHERE company_id = $1 AND general_access <> 'restricted' AND state = 'active'
                   AND ($5 OR owner_kc_sub <> $2)
                 ORDER BY updated_at DESC, id LIMIT $6 + $7)) each
             ORDER BY updated_at DESC, id
             LIMIT $6 OFFSET least($7, greatest((SELECT total FROM length) - 1, 0)))"#;
        permit.company.as_uuid(),
        permit.subject.as_str(),
        &open.documents,
        &open.folders,
        selection.view.has_own(),
        limit,
        offset
    );
    found.fetch_all(conn).await
}

/// Like `listed!`, for the reached documents that pass the filters and meet `$condition` on `docs.documents`. `$1` to `$4`
/// are the company, the subject and what [`Reached`] holds, `$5` and `$6` the view's state and whether own documents are
/// in it, `$7` and `$8` the filters, `$9` whether others' documents are in the view, `$10` and `$11` the window, `$12` the
/// text that is searched for, and `$13` is `$by`.
macro_rules! filtered {
    ($asked:ident, $condition:literal, $by:expr) => {
        listed!(
            r#"WITH wanted AS MATERIALIZED (
               SELECT id, updated_at FROM docs.documents
                 WHERE $6::bool AND company_id = $1 AND owner_kc_sub = $2 AND state = $5
                   AND ($7::uuid IS NULL OR folder_id = $7) AND (NOT $8::bool OR is_template) AND "# $condition r#"
               UNION ALL SELECT id, updated_at FROM docs.documents
                 WHERE company_id = $1 AND id = ANY($3::uuid[]) AND owner_kc_sub <> $2 AND state = $5
                   AND general_access = 'restricted' AND (folder_id IS NULL OR folder_id NOT IN (SELECT unnest($4::uuid[])))
                   AND ($7 IS NULL OR folder_id = $7) AND (NOT $8 OR is_template) AND "# $condition r#"
               UNION ALL SELECT d.id, d.updated_at FROM unnest($4) AS within(folder_id) CROSS JOIN LATERAL (
                 SELECT id, updated_at FROM docs.documents
                 WHERE company_id = $1 AND folder_id = within.folder_id AND owner_kc_sub <> $2 AND state = $5
                   AND general_access = 'restricted' AND (NOT $8 OR is_template) AND "# $condition r#" OFFSET 0) d
                 WHERE $7 IS NULL OR within.folder_id = $7
               UNION ALL SELECT id, updated_at FROM docs.documents
                 WHERE $9::bool AND company_id = $1 AND owner_kc_sub <> $2 AND state = 'active'
                   AND general_access <> 'restricted' AND ($7 IS NULL OR folder_id = $7) AND (NOT $8 OR is_template)
                   AND "# $condition r#"),
             length AS MATERIALIZED (SELECT count(*) AS total FROM wanted),
             page AS MATERIALIZED (
               SELECT id, updated_at FROM wanted ORDER BY updated_at DESC, id
               LIMIT $10 OFFSET least($11, greatest((SELECT total FROM length) - 1, 0)))"#;
            $asked.permit.company.as_uuid(),
            $asked.permit.subject.as_str(),
            &$asked.open.documents,
            &$asked.open.folders,
            $asked.selection.view.state().word(),
            $asked.selection.view.has_own(),
            $asked.selection.folder.map(FolderId::as_uuid),
            $asked.selection.templates,
            $asked.selection.view.has_shared(),
            $asked.limit,
            $asked.offset,
            $asked.selection.search,
            $by
        )
    };
}

/// A filtered list.
struct Asked<'a> {
    permit: &'a Permit,
    selection: &'a Selection<'a>,
    open: &'a Reached,
    limit: i64,
    offset: i64,
}

/// Those of the reached documents, or depending on the view of the caller's own in the trash, that pass the filters and
/// contain what is searched for.
pub(super) async fn some(
    conn: &mut PgConnection,
    permit: &Permit,
    selection: &Selection<'_>,
    (limit, offset): (i64, i64),
) -> sqlx::Result<Vec<Row>> {
    let open = &reached(conn, permit, selection).await?;
    let asked = Asked { permit, selection, open, limit, offset };
    let Some(words) = selection.search.map(words_of) else { return among(conn, &asked, &[]).await };
    match few(conn, &asked, &words).await? {
        Some(few) => among(conn, &asked, &few).await,
        None => each(conn, &asked, &words).await,
    }
}

/// Reads the words of each reached document.
async fn each(conn: &mut PgConnection, asked: &Asked<'_>, words: &str) -> sqlx::Result<Vec<Row>> {
    let found = filtered!(
        asked,
        "(search @@ (SELECT websearch_to_tsquery('simple', $13))
          OR strpos(folded_title, (SELECT lower($12::text))) > 0)",
        words
    );
    found.fetch_all(conn).await
}

/// Without a search, all; otherwise those among `few` and those with what is searched for in their title.
async fn among(conn: &mut PgConnection, asked: &Asked<'_>, few: &[Uuid]) -> sqlx::Result<Vec<Row>> {
    let found = filtered!(
        asked,
        "($12::text IS NULL OR id IN (SELECT unnest($13::uuid[])) OR strpos(folded_title, (SELECT lower($12))) > 0)",
        few
    );
    found.fetch_all(conn).await
}

/// The documents of the company that match `words`, from the full-text index. `None` if it is cheaper to read the words
/// of each document that the caller can reach: if there are at most 500 of those, if the company's latest 64 documents
/// suggest that more documents match than the caller can reach, or if the index finds more than twice as many.
async fn few(conn: &mut PgConnection, asked: &Asked<'_>, words: &str) -> sqlx::Result<Option<Vec<Uuid>>> {
    let Asked { permit, selection, open, .. } = asked;
    let view = selection.view;
    sqlx::query_scalar!(
        r#"WITH size AS MATERIALIZED (
             SELECT $3::bigint + (SELECT count(*) FROM unnest($4::uuid[]) AS within(folder_id) CROSS JOIN LATERAL (
                 SELECT FROM docs.documents
                 WHERE company_id = $1 AND folder_id = within.folder_id AND state = $5 OFFSET 0) d)
               + (SELECT count(*) FROM docs.documents
                  WHERE $6::bool AND company_id = $1 AND owner_kc_sub = $2 AND state = $5)
               + coalesce((SELECT open FROM docs.document_counts WHERE $7::bool AND company_id = $1), 0) AS documents),
           asked AS MATERIALIZED (
             SELECT words, CASE numnode(words) WHEN 0 THEN words ELSE quote_literal(':' || $1::uuid)::tsquery && words END AS all_words
             FROM websearch_to_tsquery('simple', $8) AS words),
           is_common AS MATERIALIZED (
             SELECT (SELECT documents <= 500 FROM size)
               OR count(*) FILTER (WHERE latest.is_hit)
                 * coalesce((SELECT active + trashed FROM docs.document_counts WHERE company_id = $1), 0)
                 > count(*) * (SELECT documents FROM size) AS value
             FROM (SELECT search @@ (SELECT words FROM asked) AS is_hit FROM docs.documents
               WHERE company_id = $1 AND state = 'active' ORDER BY updated_at DESC, id LIMIT 64) latest),
           few AS MATERIALIZED (
             SELECT id FROM docs.documents
             WHERE NOT (SELECT value FROM is_common) AND company_id = $1 AND search @@ (SELECT all_words FROM asked)
             LIMIT (SELECT 2 * documents + 1 FROM size))
           SELECT CASE WHEN (SELECT value FROM is_common) OR (SELECT count(*) FROM few) > (SELECT 2 * documents FROM size)
             THEN NULL ELSE ARRAY(SELECT id FROM few) END AS "few: Vec<Uuid>""#,
        permit.company.as_uuid(),
        permit.subject.as_str(),
        i64::try_from(open.documents.len()).unwrap_or(i64::MAX),
        &open.folders,
        view.state().word(),
        view.has_own(),
        view.has_shared(),
        words
    )
    .fetch_one(conn)
    .await
}
