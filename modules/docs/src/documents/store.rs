//! `docs.documents`, with the current text. Every version is a full copy in `docs.versions`.

use contract::id::{CompanyId, MemberId};
use service::{ApiError, CompanyTx};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::counts;
use super::rights::{self, Rights};
use super::rules::{Content, DocumentId, GeneralAccess, State, StoredDocument, unknown};
use crate::admission::Admitted;
use crate::folders::rules::FolderId;
use crate::store::subject;

struct Row {
    id: Uuid,
    company_id: Uuid,
    title: String,
    current_version: i32,
    state: String,
    owner_kc_sub: String,
    owner_member_id: Uuid,
    owner_label: Option<String>,
    general_access: String,
    editors_can_share: bool,
    is_template: bool,
    folder_id: Option<Uuid>,
    rights_version: i64,
    folder_rights: Uuid,
    share_count: i64,
    trashed_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    updated_by: String,
    body: String,
}

impl Row {
    fn read(self) -> Result<(StoredDocument, Content, Rights), ApiError> {
        let rights = Rights::new(self.rights_version, self.folder_rights);
        let content = Content { title: self.title.clone(), body: self.body };
        let document = StoredDocument {
            id: self.id.into(),
            company: self.company_id.into(),
            title: self.title,
            version: self.current_version,
            state: State::of_word(&self.state)?,
            owner: subject(&self.owner_kc_sub)?,
            owner_member: MemberId::from(self.owner_member_id),
            owner_label: self.owner_label,
            general_access: GeneralAccess::of_word(&self.general_access)?,
            editors_can_share: self.editors_can_share,
            is_template: self.is_template,
            folder: self.folder_id.map(FolderId::from),
            share_count: self.share_count,
            trashed_at: self.trashed_at.map(Into::into),
            created_at: self.created_at.into(),
            updated_at: self.updated_at.into(),
            updated_by: self.updated_by,
        };
        Ok((document, content, rights))
    }
}

/// Reads a document of the company in any state, with its text and the state of its rights.
pub(super) async fn read(
    conn: &mut PgConnection,
    company: CompanyId,
    id: DocumentId,
) -> Result<Option<(StoredDocument, Content, Rights)>, ApiError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT d.id, d.company_id, d.title, d.current_version, d.state, d.owner_kc_sub, d.owner_member_id,
             d.owner_label, d.general_access, d.editors_can_share, d.is_template, d.folder_id, d.rights_version, d.trashed_at,
             d.created_at, d.updated_at, d.updated_by, d.body, md5(ARRAY(
               SELECT f.id::text || f.rights_version FROM docs.folder_ancestors a JOIN docs.folders f ON f.id = a.ancestor_id
               WHERE a.folder_id = d.folder_id ORDER BY a.distance)::text)::uuid AS "folder_rights!",
             (SELECT count(*) FROM docs.shares s
              WHERE s.document_id = d.id AND (s.state <> 'pending' OR s.attempts > 0)) AS "share_count!"
           FROM docs.documents d
           WHERE d.company_id = $1 AND d.id = $2"#,
        company.as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(conn).await?.map(Row::read).transpose()
}

/// Reads the document that the call was admitted to, with its text and the state of its rights.
pub(crate) async fn find(
    pool: &PgPool,
    admitted: &Admitted,
) -> Result<(StoredDocument, Content, Rights), ApiError> {
    let mut conn = pool.acquire().await?;
    read(&mut conn, admitted.company, admitted.gist.id).await?.ok_or_else(unknown)
}

/// Locks a document of the company and its [`Rights`] until the transaction ends, and reads it with its text.
///
/// # Errors
/// 404 for an unknown document or one that is still `provisioning`.
pub(crate) async fn lock(
    tx: &mut CompanyTx,
    id: DocumentId,
) -> Result<(StoredDocument, Content, Rights), ApiError> {
    let company = tx.company();
    lock_row(tx.conn(), company, id).await?;
    let rights = rights::held(tx.conn(), company, id).await?;
    let (document, content, _) = read(tx.conn(), company, id).await?.ok_or_else(unknown)?;
    if document.state == State::Provisioning { Err(unknown()) } else { Ok((document, content, rights)) }
}

/// Reads a document that [`lock`] holds as this transaction leaves it: once it has committed, another one may change the
/// document before it is read again.
pub(crate) async fn written(
    tx: &mut CompanyTx,
    id: DocumentId,
) -> Result<(StoredDocument, Content), ApiError> {
    let company = tx.company();
    let (document, content, _) = read(tx.conn(), company, id).await?.ok_or_else(unknown)?;
    Ok((document, content))
}

/// Locks the row in a separate statement, so that the next one reads what others committed before the lock was granted.
pub(crate) async fn lock_row(
    conn: &mut PgConnection,
    company: CompanyId,
    id: DocumentId,
) -> Result<(), ApiError> {
    sqlx::query!(
        "SELECT id FROM docs.documents WHERE company_id = $1 AND id = $2 FOR UPDATE",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(())
}

/// What sharing and transferring a document depend on.
pub(crate) struct Sharing {
    pub(crate) state: State,
    pub(crate) owner: String,
    pub(crate) editors_can_share: bool,
    pub(crate) rights: Rights,
    pub(crate) transfer_to: Option<String>,
}

/// Locks a document and its [`Rights`] until the transaction ends, and reads its [`Sharing`].
pub(crate) async fn lock_sharing(
    conn: &mut PgConnection,
    company: CompanyId,
    id: DocumentId,
) -> Result<Sharing, ApiError> {
    let row = sqlx::query!(
        "SELECT state, owner_kc_sub, editors_can_share, transfer_to FROM docs.documents
         WHERE company_id = $1 AND id = $2 AND state <> 'provisioning' FOR UPDATE",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or_else(unknown)?;
    Ok(Sharing {
        state: State::of_word(&row.state)?,
        owner: row.owner_kc_sub,
        editors_can_share: row.editors_can_share,
        rights: rights::held(conn, company, id).await?,
        transfer_to: row.transfer_to,
    })
}

/// Writes the next version of a document that [`lock`] holds, and makes it the current one.
///
/// # Errors
/// 500 when the document is no longer the one that was locked.
pub(crate) async fn add_version(
    tx: &mut CompanyTx,
    document: &StoredDocument,
    content: &Content,
    restored_from: Option<i32>,
) -> Result<(), ApiError> {
    let (company, author) = (tx.company().as_uuid(), tx.actor().to_owned());
    let moved = sqlx::query!(
        "UPDATE docs.documents SET current_version = current_version + 1, title = $4, body = $6,
           updated_at = now(), updated_by = $5
         WHERE company_id = $1 AND id = $2 AND current_version = $3 AND state = 'active'",
        company,
        document.id.as_uuid(),
        document.version,
        content.title,
        author,
        content.body
    )
    .execute(tx.conn())
    .await?;
    if moved.rows_affected() != 1 {
        return Err(ApiError::internal("a locked document was changed by another statement"));
    }
    sqlx::query!(
        "INSERT INTO docs.versions(document_id, version, title, body, author, restored_from)
         VALUES ($1, $2, $3, $4, $5, $6)",
        document.id.as_uuid(),
        document.version + 1,
        content.title,
        content.body,
        author,
        restored_from
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Writes the owner's member row and name to a document that [`lock`] holds.
pub(crate) async fn set_owner_member(
    tx: &mut CompanyTx,
    id: DocumentId,
    member: MemberId,
    label: Option<&str>,
) -> Result<(), ApiError> {
    let company = tx.company().as_uuid();
    sqlx::query!(
        "UPDATE docs.documents SET owner_member_id = $3, owner_label = $4 WHERE company_id = $1 AND id = $2",
        company,
        id.as_uuid(),
        member.as_uuid(),
        label
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Sets or clears the template flag of a document that [`lock`] holds.
pub(super) async fn set_template(tx: &mut CompanyTx, id: DocumentId, flag: bool) -> Result<(), ApiError> {
    let (company, actor) = (tx.company().as_uuid(), tx.actor().to_owned());
    sqlx::query!(
        "UPDATE docs.documents SET is_template = $3, updated_at = now(), updated_by = $4
         WHERE company_id = $1 AND id = $2",
        company,
        id.as_uuid(),
        flag,
        actor
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Moves a document that [`lock`] holds to or from the trash.
pub(super) async fn set_trashed(
    tx: &mut CompanyTx,
    document: &StoredDocument,
    trashed: bool,
) -> Result<(), ApiError> {
    let (company, actor) = (tx.company().as_uuid(), tx.actor().to_owned());
    sqlx::query!(
        "UPDATE docs.documents SET state = CASE WHEN $3 THEN 'trashed' ELSE 'active' END,
           trashed_at = CASE WHEN $3 THEN now() END, trashed_by = CASE WHEN $3 THEN $4 END
         WHERE company_id = $1 AND id = $2",
        company,
        document.id.as_uuid(),
        trashed,
        actor
    )
    .execute(tx.conn())
    .await?;
    let to = if trashed { State::Trashed } else { State::Active };
    counts::change(tx.conn(), document, to, document.general_access).await
}

/// Writes general access and `editors_can_share` of a document that [`lock`] holds.
pub(super) async fn set_access(
    tx: &mut CompanyTx,
    document: &StoredDocument,
    general_access: GeneralAccess,
    editors_can_share: bool,
) -> Result<(), ApiError> {
    let company = tx.company().as_uuid();
    sqlx::query!(
        "UPDATE docs.documents
         SET general_access = $3, editors_can_share = $4, rights_version = rights_version + 1
         WHERE company_id = $1 AND id = $2",
        company,
        document.id.as_uuid(),
        general_access.word(),
        editors_can_share
    )
    .execute(tx.conn())
    .await?;
    counts::change(tx.conn(), document, document.state, general_access).await
}
