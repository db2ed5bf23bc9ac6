//! `docs.shares`: the module's own index of what is shared with whom.

use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::principal::Named;
use contract::{Principal, Subject};
use service::{ApiError, AuditedTx};
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Share, ShareId, ShareRole, Target};
use crate::documents::rights;
use crate::documents::rules::DocumentId;
use crate::folders;
use crate::folders::rules::FolderId;
use crate::store::subject;

struct Row {
    id: Uuid,
    company_id: Uuid,
    document_id: Option<Uuid>,
    folder_id: Option<Uuid>,
    member_id: Option<Uuid>,
    position_id: Option<Uuid>,
    group_id: Option<Uuid>,
    kc_sub: Option<String>,
    label: Option<String>,
    role: String,
    next_role: Option<String>,
    granted_by: String,
    revoked_by: Option<String>,
    revoked_for: Option<String>,
    created_at: OffsetDateTime,
}

impl Row {
    fn share(self) -> Result<Share, ApiError> {
        let named = Named::of(
            self.member_id.map(MemberId::from),
            self.position_id.map(PositionId::from),
            self.group_id.map(GroupId::from),
        );
        let target = match (self.document_id, self.folder_id) {
            (Some(id), _) => Some(Target::Document(DocumentId::from(id))),
            (None, id) => id.map(|id| Target::Folder(FolderId::from(id))),
        };
        Ok(Share {
            id: self.id.into(),
            company: self.company_id.into(),
            target: target.ok_or_else(|| ApiError::internal("a share without a target"))?,
            principal: named.one().ok_or_else(|| ApiError::internal("a share without a principal"))?,
            kc_sub: self.kc_sub.as_deref().map(subject).transpose()?,
            label: self.label,
            role: ShareRole::of_word(&self.role)?,
            next_role: self.next_role.as_deref().map(ShareRole::of_word).transpose()?,
            granted_by: self.granted_by,
            revoked_by: self.revoked_by,
            revoked_for: self.revoked_for,
            created_at: self.created_at.into(),
        })
    }
}

/// Selects shares; the tail is the `WHERE` clause.
macro_rules! rows {
    ($tail:literal, $($value:expr),*) => {
        sqlx::query_as!(
            Row,
            "SELECT id, company_id, document_id, folder_id, member_id, position_id, group_id, kc_sub, label, role,
               next_role, granted_by, revoked_by, revoked_for, created_at FROM docs.shares "
                + $tail,
            $($value),*
        )
    };
}

/// Lists the shares of a target that may give access, in the order in which they were given: those that are confirmed,
/// and those that authz was asked for and whose outcome is unknown.
pub(super) async fn list_given(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    target: Target,
) -> Result<Vec<Share>, ApiError> {
    let rows = rows!(
        "WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3) AND (state <> 'pending' OR attempts > 0)
         ORDER BY created_at, id",
        company.as_uuid(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid)
    );
    rows.fetch_all(executor).await?.into_iter().map(Row::share).collect()
}

/// Lists the shares of these folders, which are around a document or folder, as [`list_given`], without those of its owner.
pub(super) async fn list_inherited(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    target: Target,
    folders: &[FolderId],
) -> Result<Vec<Share>, ApiError> {
    let folders: Vec<Uuid> = folders.iter().map(|id| id.as_uuid()).collect();
    let rows = rows!(
        "WHERE company_id = $1 AND (state <> 'pending' OR attempts > 0) AND folder_id = ANY($4)
           AND kc_sub IS DISTINCT FROM coalesce(
             (SELECT owner_kc_sub FROM docs.documents WHERE company_id = $1 AND id = $2),
             (SELECT owner_kc_sub FROM docs.folders WHERE company_id = $1 AND id = $3))
         ORDER BY created_at, id",
        company.as_uuid(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid),
        &folders
    );
    rows.fetch_all(executor).await?.into_iter().map(Row::share).collect()
}

struct Owning {
    id: Uuid,
    folder_id: Uuid,
    owner_member_id: Uuid,
    owner_kc_sub: String,
    owner_label: Option<String>,
    created_at: OffsetDateTime,
}

/// Lists the owners of these folders, which are around a document or folder and who edit it, as shares of the folders; without
/// its own owner. Their ids are made from those of the document or folder and of the folder around it.
pub(super) async fn list_owning(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    target: Target,
    folders: &[FolderId],
) -> Result<Vec<Share>, ApiError> {
    let folders: Vec<Uuid> = folders.iter().map(|id| id.as_uuid()).collect();
    let rows = sqlx::query_as!(
        Owning,
        r#"SELECT md5(t.id::text || f.id)::uuid AS "id!", f.id AS folder_id, f.owner_member_id, f.owner_kc_sub,
             f.owner_label, f.created_at
           FROM (SELECT id, owner_kc_sub FROM docs.documents WHERE company_id = $1 AND id = $2
             UNION ALL SELECT id, owner_kc_sub FROM docs.folders WHERE company_id = $1 AND id = $3) t
             JOIN docs.folders f ON f.company_id = $1 AND f.id = ANY($4)
           WHERE f.owner_kc_sub <> t.owner_kc_sub ORDER BY array_position($4, f.id)"#,
        company.as_uuid(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid),
        &folders
    );
    let rows = rows.fetch_all(executor).await?;
    let share = |Owning { id, folder_id, owner_member_id, owner_kc_sub, owner_label, created_at }: Owning| {
        Ok(Share {
            id: id.into(),
            company,
            target: Target::Folder(folder_id.into()),
            principal: Principal::Member(owner_member_id.into()),
            kc_sub: Some(subject(&owner_kc_sub)?),
            label: owner_label,
            role: ShareRole::Editor,
            next_role: None,
            granted_by: owner_kc_sub,
            revoked_by: None,
            revoked_for: None,
            created_at: created_at.into(),
        })
    };
    rows.into_iter().map(share).collect()
}

/// Lists the confirmed shares of a target in the order in which they were given.
pub(crate) async fn list(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    target: Target,
) -> Result<Vec<Share>, ApiError> {
    let rows = rows!(
        "WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3) AND state <> 'pending' ORDER BY created_at, id",
        company.as_uuid(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid)
    );
    rows.fetch_all(executor).await?.into_iter().map(Row::share).collect()
}

/// Finds a share in any state.
pub(crate) async fn find(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    id: ShareId,
) -> Result<Option<Share>, ApiError> {
    let row = rows!("WHERE company_id = $1 AND id = $2", company.as_uuid(), id.as_uuid());
    row.fetch_optional(executor).await?.map(Row::share).transpose()
}

/// Finds a share of this target as [`list_given`] lists them.
pub(crate) async fn find_of(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    target: Target,
    id: ShareId,
) -> Result<Option<Share>, ApiError> {
    let row = rows!(
        "WHERE company_id = $1 AND id = $2 AND (state <> 'pending' OR attempts > 0)",
        company.as_uuid(),
        id.as_uuid()
    );
    let found = row.fetch_optional(executor).await?.map(Row::share).transpose()?;
    Ok(found.filter(|share| share.target == target))
}

/// Finds a principal's share of a target in any state, with the state's word.
pub(crate) async fn of_principal(
    conn: &mut PgConnection,
    company: CompanyId,
    target: Target,
    principal: Principal,
) -> Result<Option<(Share, String)>, ApiError> {
    let found = sqlx::query!(
        "SELECT id, state FROM docs.shares
         WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3)
           AND (member_id = $4 OR position_id = $5 OR group_id = $6)",
        company.as_uuid(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid),
        principal.member().map(MemberId::as_uuid),
        principal.position().map(PositionId::as_uuid),
        principal.group().map(GroupId::as_uuid)
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(found) = found else { return Ok(None) };
    Ok(find(conn, company, found.id.into()).await?.map(|share| (share, found.state)))
}

/// The number of shares of a target, in any state.
pub(crate) async fn count(
    conn: &mut PgConnection,
    company: CompanyId,
    target: Target,
) -> Result<i64, ApiError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM docs.shares
           WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3)"#,
        company.as_uuid(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid)
    )
    .fetch_one(conn)
    .await?)
}

/// Adds a share in this state.
pub(crate) async fn insert(
    conn: &mut PgConnection,
    share: &Share,
    state: &'static str,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO docs.shares(id, company_id, document_id, folder_id, principal_kind, member_id, position_id, group_id,
           kc_sub, label, role, state, granted_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        share.id.as_uuid(),
        share.company.as_uuid(),
        share.target.document().map(DocumentId::as_uuid),
        share.target.folder().map(FolderId::as_uuid),
        share.principal.kind().word(),
        share.principal.member().map(MemberId::as_uuid),
        share.principal.position().map(PositionId::as_uuid),
        share.principal.group().map(GroupId::as_uuid),
        share.kc_sub.as_ref().map(Subject::as_str),
        share.label,
        share.role.word(),
        state,
        share.granted_by
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes the role that a share is changing to.
pub(super) async fn set_next_role(
    conn: &mut PgConnection,
    share: &Share,
    role: ShareRole,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE docs.shares SET next_role = $3 WHERE company_id = $1 AND id = $2",
        share.company.as_uuid(),
        share.id.as_uuid(),
        role.word()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes the role that a share gives, and ends a role change.
pub(super) async fn set_role(
    conn: &mut PgConnection,
    share: &Share,
    role: ShareRole,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE docs.shares SET role = $3, next_role = NULL WHERE company_id = $1 AND id = $2",
        share.company.as_uuid(),
        share.id.as_uuid(),
        role.word()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the actor that removes a share, and the reason if no caller requested the removal.
pub(super) async fn set_revoked(
    tx: &mut AuditedTx,
    share: &Share,
    actor: &str,
    reason: Option<&str>,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE docs.shares SET revoked_by = $3, revoked_for = $4 WHERE company_id = $1 AND id = $2",
        share.company.as_uuid(),
        share.id.as_uuid(),
        actor,
        reason
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Keeps the folder that is shared from being deleted until the transaction ends, so that no tuple of a share comes or
/// goes after the folder's.
///
/// # Errors
/// 404 when the folder is being deleted.
pub(super) async fn hold_target(tx: &mut AuditedTx, share: &Share) -> Result<(), ApiError> {
    match share.target {
        Target::Document(_) => Ok(()),
        Target::Folder(id) => folders::store::hold_active(tx.conn(), share.company, id).await,
    }
}

/// Notes that a share gives less than before.
pub(super) async fn rights_changed(tx: &mut AuditedTx, share: &Share) -> Result<(), ApiError> {
    match share.target {
        Target::Document(id) => rights::changed(tx.conn(), share.company, id).await,
        Target::Folder(id) => rights::changed_in_folder(tx.conn(), share.company, id).await,
    }
}

/// The role that another share of the same target gives the same login. Its tuple stays when this share ends.
pub(super) async fn kept(
    executor: impl PgExecutor<'_>,
    share: &Share,
) -> Result<Option<ShareRole>, ApiError> {
    let Some(login) = &share.kc_sub else { return Ok(None) };
    let found = sqlx::query_scalar!(
        "SELECT role FROM docs.shares
         WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3) AND kc_sub = $4 AND id <> $5
           AND state <> 'pending' LIMIT 1",
        share.company.as_uuid(),
        share.target.document().map(DocumentId::as_uuid),
        share.target.folder().map(FolderId::as_uuid),
        login.as_str(),
        share.id.as_uuid()
    );
    Ok(found.fetch_optional(executor).await?.as_deref().map(ShareRole::of_word).transpose()?)
}

/// A member row with the login that it had when it was given shares.
pub(super) struct Grantee {
    pub(super) company: CompanyId,
    pub(super) member: MemberId,
    pub(super) login: Subject,
}

/// Lists grantees of settled shares in all companies, ordered by company, after a given one. The recursive query skips
/// from one grantee to the next in the index, however many shares each has.
pub(super) async fn grantees(
    pool: &PgPool,
    after: Option<&Grantee>,
    limit: i64,
) -> Result<Vec<Grantee>, ApiError> {
    let found = sqlx::query!(
        r#"WITH RECURSIVE grantees AS (
             (SELECT company_id, member_id, kc_sub FROM docs.shares
               WHERE member_id IS NOT NULL AND state = 'active' AND next_role IS NULL
                 AND (company_id, member_id, kc_sub) > ($1, $2, $3)
               ORDER BY company_id, member_id, kc_sub LIMIT 1)
             UNION ALL
             SELECT following.* FROM grantees g, LATERAL (
               SELECT s.company_id, s.member_id, s.kc_sub FROM docs.shares s
                WHERE s.member_id IS NOT NULL AND s.state = 'active' AND s.next_role IS NULL
                  AND (s.company_id, s.member_id, s.kc_sub) > (g.company_id, g.member_id, g.kc_sub)
                ORDER BY s.company_id, s.member_id, s.kc_sub LIMIT 1) following)
           SELECT company_id AS "company_id!", member_id AS "member_id!", kc_sub AS "kc_sub!" FROM grantees LIMIT $4"#,
        after.map_or_else(Uuid::nil, |one| one.company.as_uuid()),
        after.map_or_else(Uuid::nil, |one| one.member.as_uuid()),
        after.map_or("", |one| one.login.as_str()),
        limit
    )
    .fetch_all(pool)
    .await?;
    let grantee = |company: Uuid, member: Uuid, login: &str| {
        Ok(Grantee { company: company.into(), member: member.into(), login: subject(login)? })
    };
    found.iter().map(|row| grantee(row.company_id, row.member_id, &row.kc_sub)).collect()
}

/// Ids of the settled shares of a grantee.
pub(super) async fn of_grantee(pool: &PgPool, grantee: &Grantee, limit: i64) -> Result<Vec<Uuid>, ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM docs.shares
         WHERE company_id = $1 AND member_id = $2 AND kc_sub = $3 AND state = 'active' AND next_role IS NULL LIMIT $4",
        grantee.company.as_uuid(),
        grantee.member.as_uuid(),
        grantee.login.as_str(),
        limit
    );
    Ok(found.fetch_all(pool).await?)
}
