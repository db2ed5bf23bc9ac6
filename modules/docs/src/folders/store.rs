//! `docs.folders`.

use std::collections::{HashMap, HashSet};

use contract::Subject;
use contract::id::{CompanyId, MemberId};
use contract::page::{Page, PageRequest};
use service::clients::org::MemberContext;
use service::{ApiError, CompanyCall, CompanyTx, Permit, page};
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::admission::Admitted;
use super::rules::{FolderId, StoredFolder, View, unknown};
use crate::documents::rules::{Looker, Role};
use crate::store::subject;

struct Row {
    id: Uuid,
    company_id: Uuid,
    name: String,
    parent_id: Option<Uuid>,
    owner_kc_sub: String,
    owner_member_id: Uuid,
    owner_label: Option<String>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    total: i64,
}

impl Row {
    fn folder(self) -> Result<StoredFolder, ApiError> {
        Ok(StoredFolder {
            id: self.id.into(),
            company: self.company_id.into(),
            name: self.name,
            parent: self.parent_id.map(FolderId::from),
            owner: subject(&self.owner_kc_sub)?,
            owner_member: MemberId::from(self.owner_member_id),
            owner_label: self.owner_label,
            created_at: self.created_at.into(),
            updated_at: self.updated_at.into(),
        })
    }
}

/// Lists one page of the folders that the caller sees, by name, optionally of one parent folder only. The folders that the
/// caller sees are read first: an `OR` with a subquery would be asked for each folder of the company.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    view: View,
    parent: Option<FolderId>,
    looker: &Looker<'_>,
    request: PageRequest,
) -> Result<Page<StoredFolder>, ApiError> {
    let (member, positions, groups) = MemberContext::columns(looker.member);
    let rows = |limit: i64, offset: i64| {
        sqlx::query_as!(
            Row,
            r#"WITH opened AS MATERIALIZED (
                 SELECT s.folder_id FROM docs.shares s
                 WHERE NOT $2::bool AND s.company_id = $1 AND s.folder_id IS NOT NULL AND s.state <> 'pending'
                   AND (s.next_role IS NULL OR s.role = 'viewer' OR s.next_role = 'editor')
                   AND ((s.member_id = $5::uuid AND s.kc_sub = $4) OR s.position_id = ANY($6::uuid[])
                     OR s.group_id = ANY($7::uuid[]))
                 UNION SELECT f.id FROM docs.folders f
                   WHERE NOT $2 AND f.company_id = $1 AND f.owner_kc_sub = $4),
               visible AS MATERIALIZED (
                 SELECT DISTINCT a.folder_id AS id
                 FROM opened o JOIN docs.folder_ancestors a ON a.ancestor_id = o.folder_id),
               listed AS (
                 SELECT f.* FROM visible v CROSS JOIN LATERAL (
                   SELECT * FROM docs.folders WHERE id = v.id OFFSET 0) f
                 UNION ALL SELECT * FROM docs.folders WHERE $2 AND company_id = $1)
               SELECT f.id AS "id!", f.company_id AS "company_id!", f.name AS "name!", f.parent_id,
                 f.owner_kc_sub AS "owner_kc_sub!", f.owner_member_id AS "owner_member_id!", f.owner_label,
                 f.created_at AS "created_at!", f.updated_at AS "updated_at!", count(*) OVER () AS "total!"
               FROM listed f
               WHERE f.company_id = $1 AND f.state <> 'pending' AND ($3::uuid IS NULL OR f.parent_id = $3)
               ORDER BY f.name, f.id LIMIT $8 OFFSET $9"#,
            permit.company.as_uuid(),
            view == View::All,
            parent.map(FolderId::as_uuid),
            looker.subject.as_str(),
            member,
            &positions,
            &groups,
            limit,
            offset
        )
        .fetch_all(pool)
    };
    page::load(request, rows, |row| row.total, Row::folder).await
}

/// Finds a folder of the company in any state.
pub(super) async fn find(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    id: FolderId,
) -> Result<Option<StoredFolder>, ApiError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT id, company_id, name, parent_id, owner_kc_sub, owner_member_id, owner_label, created_at, updated_at,
             1::bigint AS "total!"
           FROM docs.folders WHERE company_id = $1 AND id = $2"#,
        company.as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(executor).await?.map(Row::folder).transpose()
}

/// Reads the folder that the call was admitted to.
pub(super) async fn of(pool: &PgPool, admitted: &Admitted) -> Result<StoredFolder, ApiError> {
    find(pool, admitted.company, admitted.id).await?.ok_or_else(unknown)
}

/// The owners of folders.
pub(crate) async fn owners(
    pool: &PgPool,
    company: CompanyId,
    folders: &[FolderId],
) -> Result<Vec<(FolderId, Subject)>, ApiError> {
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = folders.iter().map(|id| id.as_uuid()).collect();
    let rows = sqlx::query!(
        "SELECT id, owner_kc_sub FROM docs.folders WHERE company_id = $1 AND id = ANY($2)",
        company.as_uuid(),
        &ids
    );
    let rows = rows.fetch_all(pool).await?;
    rows.into_iter().map(|row| Ok((row.id.into(), subject(&row.owner_kc_sub)?))).collect()
}

/// Renames a folder and returns its former name.
pub(super) async fn rename(tx: &mut CompanyTx, id: FolderId, name: &str) -> Result<String, ApiError> {
    let company = tx.company().as_uuid();
    let before = sqlx::query_scalar!(
        "SELECT name FROM docs.folders WHERE company_id = $1 AND id = $2 AND state = 'active' FOR NO KEY UPDATE",
        company,
        id.as_uuid()
    );
    let before = before.fetch_optional(tx.conn()).await?.ok_or_else(unknown)?;
    sqlx::query!(
        "UPDATE docs.folders SET name = $3, updated_at = now() WHERE company_id = $1 AND id = $2",
        company,
        id.as_uuid(),
        name
    )
    .execute(tx.conn())
    .await?;
    Ok(before)
}

/// Locks an active folder until the transaction ends and returns its owner.
///
/// # Errors
/// 404 when there is no such active folder.
pub(crate) async fn lock_active(
    conn: &mut PgConnection,
    company: CompanyId,
    id: FolderId,
) -> Result<Subject, ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT owner_kc_sub FROM docs.folders WHERE company_id = $1 AND id = $2 AND state = 'active' FOR UPDATE",
        company.as_uuid(),
        id.as_uuid()
    );
    subject(&found.fetch_optional(conn).await?.ok_or_else(unknown)?)
}

/// Keeps a folder from being deleted until the transaction ends, while one of its shares changes.
///
/// # Errors
/// 404 when there is no such active folder.
pub(crate) async fn hold_active(
    conn: &mut PgConnection,
    company: CompanyId,
    id: FolderId,
) -> Result<(), ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM docs.folders WHERE company_id = $1 AND id = $2 AND state = 'active' FOR SHARE",
        company.as_uuid(),
        id.as_uuid()
    );
    found.fetch_optional(conn).await?.map(drop).ok_or_else(unknown)
}

/// Locks a folder that moves until the transaction ends, so that it is not deleted meanwhile.
///
/// # Errors
/// 404 when there is no such active folder.
pub(crate) async fn lock_moved(
    conn: &mut PgConnection,
    company: CompanyId,
    id: FolderId,
) -> Result<(), ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM docs.folders WHERE company_id = $1 AND id = $2 AND state = 'active' FOR NO KEY UPDATE",
        company.as_uuid(),
        id.as_uuid()
    );
    found.fetch_optional(conn).await?.map(drop).ok_or_else(unknown)
}

/// The number of folders that a subject owns.
pub(super) async fn owned(
    conn: &mut PgConnection,
    company: CompanyId,
    owner: &Subject,
) -> Result<i64, ApiError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM docs.folders WHERE company_id = $1 AND owner_kc_sub = $2"#,
        company.as_uuid(),
        owner.as_str()
    )
    .fetch_one(conn)
    .await?)
}

/// What keeps a folder from being deleted, as counts.
pub(super) struct Holds {
    pub(super) folders: i64,
    pub(super) documents: i64,
    /// Up to 100 of the documents that are in the trash, which no list shows to the folder's manager.
    pub(super) trashed: Vec<Uuid>,
    pub(super) moves: i64,
    pub(super) unsettled_shares: i64,
}

/// Counts what a locked folder holds.
pub(super) async fn holds(
    conn: &mut PgConnection,
    company: CompanyId,
    id: FolderId,
) -> Result<Holds, ApiError> {
    let found = sqlx::query_as!(
        Holds,
        r#"SELECT (SELECT count(*) FROM docs.folders WHERE company_id = $1 AND parent_id = $2) AS "folders!",
             (SELECT count(*) FROM docs.documents WHERE company_id = $1 AND folder_id = $2) AS "documents!",
             ARRAY(SELECT id FROM docs.documents WHERE company_id = $1 AND folder_id = $2 AND state = 'trashed'
               ORDER BY id LIMIT 100) AS "trashed!",
             (SELECT count(*) FROM docs.placements WHERE company_id = $1 AND (parent_id = $2 OR next_parent_id = $2
               OR folder_id = $2 AND state <> 'active')) AS "moves!",
             (SELECT count(*) FROM docs.shares WHERE company_id = $1 AND folder_id = $2 AND state <> 'active')
               AS "unsettled_shares!""#,
        company.as_uuid(),
        id.as_uuid()
    );
    Ok(found.fetch_one(conn).await?)
}

/// Those of these folders that lists show to the caller.
pub(crate) async fn seen(
    pool: &PgPool,
    call: &CompanyCall,
    looker: &Looker<'_>,
    folders: &[FolderId],
) -> Result<HashSet<FolderId>, ApiError> {
    if looker.manages {
        return Ok(folders.iter().copied().collect());
    }
    let ids: Vec<Uuid> = folders.iter().map(|id| id.as_uuid()).collect();
    let (member, positions, groups) = MemberContext::columns(looker.member);
    let found = sqlx::query_scalar!(
        "SELECT DISTINCT a.folder_id FROM docs.folder_ancestors a
         WHERE a.company_id = $1 AND a.folder_id = ANY($2) AND (
           EXISTS (SELECT FROM docs.folders f WHERE f.id = a.ancestor_id AND f.owner_kc_sub = $3)
           OR EXISTS (SELECT FROM docs.shares s WHERE s.folder_id = a.ancestor_id AND s.state <> 'pending'
             AND (s.next_role IS NULL OR s.role = 'viewer' OR s.next_role = 'editor')
             AND ((s.member_id = $4 AND s.kc_sub = $3) OR s.position_id = ANY($5) OR s.group_id = ANY($6))))",
        call.company.as_uuid(),
        &ids,
        looker.subject.as_str(),
        member,
        &positions,
        &groups
    );
    Ok(found.fetch_all(pool).await?.into_iter().map(FolderId::from).collect())
}

/// The caller's role in each of these folders; folders in which the caller has none are absent.
pub(super) async fn roles(
    pool: &PgPool,
    call: &CompanyCall,
    looker: &Looker<'_>,
    folders: &[StoredFolder],
) -> Result<HashMap<FolderId, Role>, ApiError> {
    let mut roles = HashMap::new();
    if looker.member.is_some() && !folders.is_empty() {
        let ids: Vec<Uuid> = folders.iter().map(|folder| folder.id.as_uuid()).collect();
        let (member, positions, groups) = MemberContext::columns(looker.member);
        let rows = sqlx::query!(
            r#"SELECT a.folder_id, max(r.rank) AS "rank!" FROM docs.folder_ancestors a
               JOIN LATERAL (
                 SELECT CASE s.role WHEN 'editor' THEN 3 WHEN 'commenter' THEN 2 ELSE 1 END AS rank FROM docs.shares s
                 WHERE s.folder_id = a.ancestor_id AND s.state <> 'pending'
                   AND (s.next_role IS NULL OR s.role = 'viewer' OR s.next_role = 'editor')
                   AND ((s.member_id = $4 AND s.kc_sub = $3) OR s.position_id = ANY($5) OR s.group_id = ANY($6))
                 UNION ALL SELECT 3 FROM docs.folders f WHERE f.id = a.ancestor_id AND f.owner_kc_sub = $3) r ON true
               WHERE a.company_id = $1 AND a.folder_id = ANY($2) GROUP BY a.folder_id"#,
            call.company.as_uuid(),
            &ids,
            looker.subject.as_str(),
            member,
            &positions,
            &groups
        );
        for row in rows.fetch_all(pool).await? {
            roles.extend(Role::of_rank(row.rank).map(|role| (FolderId::from(row.folder_id), role)));
        }
    }
    for folder in folders {
        if folder.owner == *looker.subject {
            roles.insert(folder.id, Role::Owner);
        } else if looker.manages {
            roles.entry(folder.id).or_insert(Role::Manager);
        }
    }
    Ok(roles)
}
