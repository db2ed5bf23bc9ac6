//! `docs.documents` and, as the index of who may see what, `docs.shares`. A share that is not confirmed yet is not
//! listed; one that is being taken back is, until authz has confirmed it: the list never claims less access than there
//! is.

use contract::id::MemberId;
use contract::page::PageRequest;
use service::{ApiError, Permit};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Looker, Role, StoredDocument, View};

/// Which documents of the company are wanted.
pub(super) struct Selection<'a> {
    /// Whose.
    pub(super) view: View,
    /// A part of the title, in any case.
    pub(super) search: Option<&'a str>,
    /// Who looks.
    pub(super) looker: Looker<'a>,
}

/// One page of documents and the length of the list.
pub(super) struct Found {
    pub(super) items: Vec<StoredDocument>,
    pub(super) total: i64,
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

/// One page of the wanted documents.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    page: PageRequest,
) -> Result<Found, ApiError> {
    let rows = rows(pool, permit, selection, page.limit(), page.offset()).await?;
    let total = match rows.first() {
        Some(row) => row.total,
        None => total(pool, permit, selection).await?,
    };
    Ok(Found { items: rows.into_iter().map(|row| document(permit, row)).collect(), total })
}

/// The length of the list; a page past its end does not tell it.
async fn total(pool: &PgPool, permit: &Permit, selection: &Selection<'_>) -> Result<i64, ApiError> {
    Ok(rows(pool, permit, selection, 1, 0).await?.first().map_or(0, |row| row.total))
}

async fn rows(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
    limit: i64,
    offset: i64,
) -> Result<Vec<Row>, ApiError> {
    let (view, member) = (selection.view, selection.looker.member);
    let member_id = member.map(|member| member.member.as_uuid());
    let positions: Vec<Uuid> =
        member.iter().flat_map(|member| &member.positions).map(|id| id.as_uuid()).collect();
    let groups: Vec<Uuid> = member.iter().flat_map(|member| &member.groups).map(|id| id.as_uuid()).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT d.id, d.title, d.current_version, d.owner_kc_sub, d.owner_member_id, d.general_access,
             d.editors_can_share, d.trashed_at, d.created_at, d.updated_at, d.updated_by,
             mine.share_edits, mine.share_count AS "share_count!", count(*) OVER () AS "total!"
           FROM docs.documents d
           CROSS JOIN LATERAL (
             SELECT count(*) AS share_count,
               bool_or(s.role = 'editor') FILTER (WHERE s.member_id = $6::uuid
                 OR s.position_id = ANY($7::uuid[]) OR s.group_id = ANY($8::uuid[])) AS share_edits
             FROM docs.shares s WHERE s.document_id = d.id AND s.state <> 'pending') mine
           WHERE d.company_id = $1 AND d.state = $2
             AND (NOT $3::bool OR d.owner_kc_sub = $5)
             AND (NOT $4::bool OR (d.owner_kc_sub <> $5
               AND (d.general_access <> 'restricted' OR mine.share_edits IS NOT NULL)))
             AND ($9::text IS NULL OR strpos(lower(d.title), lower($9)) > 0)
           ORDER BY d.updated_at DESC, d.id LIMIT $10 OFFSET $11"#,
        permit.company.as_uuid(),
        view.state(),
        matches!(view, View::Mine | View::Trash),
        view == View::Shared,
        permit.subject.as_str(),
        member_id,
        &positions,
        &groups,
        selection.search,
        limit,
        offset
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

fn document(permit: &Permit, row: Row) -> StoredDocument {
    StoredDocument {
        id: row.id.into(),
        company: permit.company,
        title: row.title,
        version: row.current_version,
        owner: row.owner_kc_sub,
        owner_member: MemberId::from(row.owner_member_id),
        general_access: row.general_access,
        editors_can_share: row.editors_can_share,
        share: row.share_edits.map(|edits| if edits { Role::Editor } else { Role::Viewer }),
        share_count: row.share_count,
        trashed_at: row.trashed_at.map(Into::into),
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
        updated_by: row.updated_by,
    }
}
