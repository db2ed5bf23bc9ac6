//! `docs.versions`. Callers have been admitted to the document.

use contract::page::{Page, PageRequest};
use service::{ApiError, CompanyTx, page};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::rules::{Version, VersionText};
use crate::admission::Admitted;
use crate::documents::rules::{Content, DocumentId};

/// Lists one page, newest first. Versions are numbered without gaps, so the newest number is the list's length.
pub(super) async fn list(
    pool: &PgPool,
    admitted: &Admitted,
    request: PageRequest,
) -> Result<Page<Version>, ApiError> {
    let rows = |limit: i64, offset: i64| {
        sqlx::query!(
            r#"SELECT v.version, v.title, v.size, v.author, v.created_at, v.restored_from,
                 d.current_version::bigint AS "total!"
               FROM docs.documents d JOIN docs.versions v ON v.document_id = d.id
               WHERE d.company_id = $1 AND d.id = $2 ORDER BY v.version DESC LIMIT $3 OFFSET $4"#,
            admitted.company.as_uuid(),
            admitted.gist.id.as_uuid(),
            limit,
            offset
        )
        .fetch_all(pool)
    };
    page::load(
        request,
        rows,
        |row| row.total,
        |row| {
            Ok(Version {
                version: row.version,
                title: row.title,
                size: row.size,
                author: row.author,
                created_at: row.created_at.into(),
                restored_from: row.restored_from,
            })
        },
    )
    .await
}

/// Finds one version with its text.
pub(super) async fn find(
    pool: &PgPool,
    admitted: &Admitted,
    number: i32,
) -> Result<Option<VersionText>, ApiError> {
    let row = sqlx::query!(
        "SELECT v.version, v.title, v.size, v.author, v.created_at, v.restored_from, v.body
         FROM docs.documents d JOIN docs.versions v ON v.document_id = d.id
         WHERE d.company_id = $1 AND d.id = $2 AND v.version = $3",
        admitted.company.as_uuid(),
        admitted.gist.id.as_uuid(),
        number
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| {
        let created_at: OffsetDateTime = row.created_at;
        let version = Version {
            version: row.version,
            title: row.title,
            size: row.size,
            author: row.author,
            created_at: created_at.into(),
            restored_from: row.restored_from,
        };
        VersionText { version, body: row.body }
    }))
}

/// Reads the text of one version in a transaction that holds the document's lock.
pub(super) async fn content(
    tx: &mut CompanyTx,
    document: DocumentId,
    number: i32,
) -> Result<Option<Content>, ApiError> {
    let company = tx.company().as_uuid();
    let row = sqlx::query_as!(
        Content,
        "SELECT v.title, v.body FROM docs.documents d JOIN docs.versions v ON v.document_id = d.id
         WHERE d.company_id = $1 AND d.id = $2 AND v.version = $3",
        company,
        document.as_uuid(),
        number
    );
    Ok(row.fetch_optional(tx.conn()).await?)
}
