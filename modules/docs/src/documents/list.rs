//! Lists of documents. Every one is joined to what the caller may see, before anything is searched in it or counted.

use contract::id::MemberId;
use contract::page::{Page, PageRequest};
use service::clients::org::MemberContext;
use service::{ApiError, Permit, page};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{DocumentId, GeneralAccess, Looker, Role, State, StoredDocument, View};
use crate::folders::rules::FolderId;
use crate::store::subject;
use crate::visibility;

/// Which documents of the company are wanted.
pub(super) struct Selection<'a> {
    /// Whose.
    pub(super) view: View,
    /// Part of the title in any case, or words of title and text.
    pub(super) search: Option<&'a str>,
    /// Only those that lie in this folder.
    pub(super) folder: Option<FolderId>,
    /// Only templates.
    pub(super) templates: bool,
    /// Who looks.
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
    rank: i32,
    share_count: i64,
    total: i64,
}

/// A document and the looker's role.
pub(super) type Listed = (StoredDocument, Option<Role>);

/// One page of the wanted documents, the newest change first.
pub(super) async fn page(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    request: PageRequest,
) -> Result<Page<Listed>, ApiError> {
    let state = selection.view.state();
    let looker = &selection.looker;
    if !selection.view.is_managers() {
        let rows = |limit, offset| reached(pool, permit, selection, limit, offset);
        let item = |row: Row| {
            let rank = row.rank;
            let document = document(permit, state, row)?;
            let role = Role::of(&document, looker, rank);
            Ok((document, role))
        };
        return page::load(request, rows, |row| row.total, item).await;
    }
    let rows = |limit, offset| all(pool, permit, selection, limit, offset);
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

/// Documents that the caller owns or that a share, a folder or general access opens, each with the rank of that.
async fn reached(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<Row>> {
    let view = selection.view;
    let (member, positions, groups) = MemberContext::columns(selection.looker.member);
    sqlx::query_as!(
        Row,
        r#"WITH opened AS MATERIALIZED (
             SELECT s.document_id, s.folder_id,
               CASE s.role WHEN 'editor' THEN 3 WHEN 'commenter' THEN 2 ELSE 1 END AS rank
             FROM docs.shares s
             WHERE $4::bool AND s.company_id = $1 AND s.state <> 'pending'
               AND ((s.member_id = $6::uuid AND s.kc_sub = $5) OR s.position_id = ANY($7::uuid[])
                 OR s.group_id = ANY($8::uuid[]))),
           within AS MATERIALIZED (
             SELECT a.folder_id, max(o.rank) AS rank
             FROM (SELECT folder_id, rank FROM opened WHERE folder_id IS NOT NULL
                   UNION ALL SELECT f.id, 3 FROM docs.folders f
                   WHERE $4 AND f.company_id = $1 AND f.owner_kc_sub = $5 AND f.state <> 'pending') o
             JOIN docs.folder_ancestors a ON a.ancestor_id = o.folder_id GROUP BY a.folder_id),
           reached AS (
             SELECT id, max(rank) AS rank FROM (
               SELECT document_id AS id, rank FROM opened WHERE document_id IS NOT NULL
               UNION ALL SELECT d.id, w.rank FROM within w
                 JOIN docs.documents d ON d.company_id = $1 AND d.folder_id = w.folder_id
               UNION ALL SELECT d.id, CASE d.general_access WHEN 'company_edit' THEN 3 ELSE 1 END
                 FROM docs.documents d
                 WHERE $4 AND d.company_id = $1 AND d.general_access <> 'restricted' AND d.state = 'active'
               UNION ALL SELECT d.id, 3 FROM docs.documents d
                 WHERE $3::bool AND d.company_id = $1 AND d.owner_kc_sub = $5) each GROUP BY id),
           wanted AS (
             SELECT d.*, r.rank FROM reached r JOIN docs.documents d ON d.id = r.id
             WHERE d.company_id = $1 AND d.state = $2 AND ($3 OR d.owner_kc_sub <> $5)
               AND ($10::uuid IS NULL OR d.folder_id = $10) AND (NOT $11::bool OR d.is_template)
               AND ($9::text IS NULL OR strpos(lower(d.title), lower($9)) > 0 OR d.id IN (
                 SELECT c.document_id FROM docs.contents c
                 WHERE c.company_id = $1 AND c.search @@ websearch_to_tsquery('simple', $9)))),
           page AS (SELECT * FROM wanted ORDER BY updated_at DESC, id LIMIT $12 OFFSET $13)
           SELECT d.id AS "id!", d.title AS "title!", d.current_version AS "current_version!",
             d.owner_kc_sub AS "owner_kc_sub!", d.owner_member_id AS "owner_member_id!", d.owner_label,
             d.general_access AS "general_access!", d.editors_can_share AS "editors_can_share!",
             d.is_template AS "is_template!", d.folder_id, d.trashed_at, d.created_at AS "created_at!",
             d.updated_at AS "updated_at!", d.updated_by AS "updated_by!", d.rank AS "rank!",
             (SELECT count(*) FROM docs.shares s WHERE s.document_id = d.id AND s.state <> 'pending') AS "share_count!",
             (SELECT count(*) FROM wanted) AS "total!"
           FROM page d ORDER BY d.updated_at DESC, d.id"#,
        permit.company.as_uuid(),
        view.state().word(),
        view.has_own(),
        view.has_shared(),
        permit.subject.as_str(),
        member,
        &positions,
        &groups,
        selection.search,
        selection.folder.map(FolderId::as_uuid),
        selection.templates,
        limit,
        offset
    )
    .fetch_all(pool)
    .await
}

/// Every document of the company; counted without its shares, which are read for the page alone.
async fn all(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"WITH wanted AS NOT MATERIALIZED (
             SELECT d.* FROM docs.documents d
             WHERE d.company_id = $1 AND d.state = $2
               AND ($4::uuid IS NULL OR d.folder_id = $4) AND (NOT $5::bool OR d.is_template)
               AND ($3::text IS NULL OR strpos(lower(d.title), lower($3)) > 0)),
           page AS (SELECT * FROM wanted ORDER BY updated_at DESC, id LIMIT $6 OFFSET $7)
           SELECT d.id AS "id!", d.title AS "title!", d.current_version AS "current_version!",
             d.owner_kc_sub AS "owner_kc_sub!", d.owner_member_id AS "owner_member_id!", d.owner_label,
             d.general_access AS "general_access!", d.editors_can_share AS "editors_can_share!",
             d.is_template AS "is_template!", d.folder_id, d.trashed_at, d.created_at AS "created_at!",
             d.updated_at AS "updated_at!", d.updated_by AS "updated_by!", 0 AS "rank!",
             (SELECT count(*) FROM docs.shares s WHERE s.document_id = d.id AND s.state <> 'pending') AS "share_count!",
             (SELECT count(*) FROM wanted) AS "total!"
           FROM page d ORDER BY d.updated_at DESC, d.id"#,
        permit.company.as_uuid(),
        selection.view.state().word(),
        selection.search,
        selection.folder.map(FolderId::as_uuid),
        selection.templates,
        limit,
        offset
    )
    .fetch_all(pool)
    .await
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
