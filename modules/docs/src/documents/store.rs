//! `docs.documents` and, as the index of who may see what, `docs.shares`. A share that is not confirmed yet is not
//! listed; one that is being taken back is, until authz has confirmed it: the list never claims less access than there
//! is.

use contract::id::MemberId;
use contract::page::{Page, PageRequest};
use service::clients::org::MemberContext;
use service::{ApiError, Permit, page};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Document, GeneralAccess, Looker, Role, StoredDocument, View};

/// Which documents of the company are wanted.
pub(super) struct Selection<'a> {
    /// Whose.
    pub(super) view: View,
    /// A part of the title, in any case.
    pub(super) search: Option<&'a str>,
    /// Who looks.
    pub(super) looker: Looker<'a>,
}

struct Row {
    id: Uuid,
    title: String,
    current_version: i32,
    owner_kc_sub: String,
    owner_member_id: Uuid,
    general_access: String,
    editors_can_share: bool,
    trashed_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    updated_by: String,
    share_edits: Option<bool>,
    share_count: i64,
    total: i64,
}

/// One page of the wanted documents, as the looker sees them. The list is counted without its shares, which are read for
/// the page alone.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    page: PageRequest,
) -> Result<Page<Document>, ApiError> {
    let rows = |limit, offset| rows(pool, permit, selection, limit, offset);
    page::load(page, rows, |row| row.total, |row| Ok(document(permit, row)?.seen_by(&selection.looker))).await
}

async fn rows(
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
        r#"WITH wanted AS NOT MATERIALIZED (
             SELECT d.* FROM docs.documents d
             WHERE d.company_id = $1 AND d.state = $2
               AND (NOT $3::bool OR d.owner_kc_sub = $5)
               AND (NOT $4::bool OR (d.owner_kc_sub <> $5
                 AND (d.general_access <> 'restricted' OR EXISTS (
                   SELECT FROM docs.shares s WHERE s.document_id = d.id AND s.state <> 'pending'
                     AND (s.member_id = $6::uuid OR s.position_id = ANY($7::uuid[]) OR s.group_id = ANY($8::uuid[]))))))
               AND ($9::text IS NULL OR strpos(lower(d.title), lower($9)) > 0)),
           page AS (SELECT * FROM wanted ORDER BY updated_at DESC, id LIMIT $10 OFFSET $11)
           SELECT d.id AS "id!", d.title AS "title!", d.current_version AS "current_version!",
             d.owner_kc_sub AS "owner_kc_sub!", d.owner_member_id AS "owner_member_id!",
             d.general_access AS "general_access!", d.editors_can_share AS "editors_can_share!", d.trashed_at,
             d.created_at AS "created_at!", d.updated_at AS "updated_at!", d.updated_by AS "updated_by!",
             mine.share_edits, mine.share_count AS "share_count!", (SELECT count(*) FROM wanted) AS "total!"
           FROM page d
           CROSS JOIN LATERAL (
             SELECT count(*) AS share_count,
               bool_or(s.role = 'editor') FILTER (WHERE s.member_id = $6::uuid
                 OR s.position_id = ANY($7::uuid[]) OR s.group_id = ANY($8::uuid[])) AS share_edits
             FROM docs.shares s WHERE s.document_id = d.id AND s.state <> 'pending') mine
           ORDER BY d.updated_at DESC, d.id"#,
        permit.company.as_uuid(),
        view.state(),
        matches!(view, View::Mine | View::Trash),
        view == View::Shared,
        permit.subject.as_str(),
        member,
        &positions,
        &groups,
        selection.search,
        limit,
        offset
    )
    .fetch_all(pool)
    .await
}

fn document(permit: &Permit, row: Row) -> Result<StoredDocument, ApiError> {
    Ok(StoredDocument {
        id: row.id.into(),
        company: permit.company,
        title: row.title,
        version: row.current_version,
        owner: row.owner_kc_sub,
        owner_member: MemberId::from(row.owner_member_id),
        general_access: GeneralAccess::of_word(&row.general_access)?,
        editors_can_share: row.editors_can_share,
        share: row.share_edits.map(|edits| if edits { Role::Editor } else { Role::Viewer }),
        share_count: row.share_count,
        trashed_at: row.trashed_at.map(Into::into),
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
        updated_by: row.updated_by,
    })
}
