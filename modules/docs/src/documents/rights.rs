//! The version of everything that grants rights to a document. Each decision records the version it was made for. A change
//! that may revoke a right changes the version, so a write that was decided earlier is decided again.

use contract::id::CompanyId;
use service::ApiError;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{DocumentId, unknown};
use crate::folders::rules::FolderId;

/// The version of everything that grants rights to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The document's `rights_version`, which counts changes of its shares, access, owner and place.
    document: i64,
    /// A digest of the folders around the document, each with its `rights_version`, which counts changes of its shares and
    /// place.
    folders: Uuid,
}

impl Rights {
    pub(crate) const fn new(document: i64, folders: Uuid) -> Self {
        Self { document, folders }
    }

    /// Whether both are the same apart from the folders. No folder grants the right to move a document.
    pub(crate) const fn is_same_without_folders(self, other: Self) -> bool {
        self.document == other.document
    }
}

/// Reads the rights of a document, and locks the folders around it until the transaction ends. A caller that needs the
/// document's own rights to stay the same as well holds the document's lock.
pub(crate) async fn held(
    conn: &mut PgConnection,
    company: CompanyId,
    id: DocumentId,
) -> Result<Rights, ApiError> {
    let found = sqlx::query!(
        r#"SELECT rights_version, md5(ARRAY(
             SELECT f.id::text || f.rights_version FROM docs.folder_ancestors a JOIN docs.folders f ON f.id = a.ancestor_id
             WHERE a.folder_id = d.folder_id ORDER BY a.distance FOR SHARE OF f)::text)::uuid AS "folders!"
           FROM docs.documents d WHERE company_id = $1 AND id = $2"#,
        company.as_uuid(),
        id.as_uuid()
    );
    let found = found.fetch_optional(conn).await?.ok_or_else(unknown)?;
    Ok(Rights::new(found.rights_version, found.folders))
}

/// Records that a right to the document may have been revoked. The row stays locked until the transaction ends.
pub(crate) async fn changed(
    conn: &mut PgConnection,
    company: CompanyId,
    id: DocumentId,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE docs.documents SET rights_version = rights_version + 1 WHERE company_id = $1 AND id = $2",
        company.as_uuid(),
        id.as_uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records that a right to the folder, and so to its contents, may have been revoked. The row stays locked until the
/// transaction ends.
pub(crate) async fn changed_in_folder(
    conn: &mut PgConnection,
    company: CompanyId,
    id: FolderId,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE docs.folders SET rights_version = rights_version + 1 WHERE company_id = $1 AND id = $2",
        company.as_uuid(),
        id.as_uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}
