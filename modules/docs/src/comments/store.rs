//! `docs.comments`. Callers have been admitted to the document.

use contract::page::{Page, PageRequest};
use service::{ApiError, CompanyTx, page};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Comment, CommentId, Which};
use crate::admission::Admitted;
use crate::documents::rules::{DocumentId, StoredDocument};

struct Row {
    id: Uuid,
    document_id: Uuid,
    version: i32,
    body: String,
    author: String,
    created_at: OffsetDateTime,
    resolved_at: Option<OffsetDateTime>,
    resolved_by: Option<String>,
    total: i64,
}

impl Row {
    fn comment(self) -> Comment {
        Comment {
            id: self.id.into(),
            document_id: self.document_id.into(),
            version: self.version,
            body: self.body,
            author: self.author,
            created_at: self.created_at.into(),
            resolved_at: self.resolved_at.map(Into::into),
            resolved_by: self.resolved_by,
        }
    }
}

/// Lists one page, oldest first.
pub(super) async fn list(
    pool: &PgPool,
    admitted: &Admitted,
    which: Which,
    request: PageRequest,
) -> Result<Page<Comment>, ApiError> {
    let rows = |limit: i64, offset: i64| {
        sqlx::query_as!(
            Row,
            r#"WITH listed AS NOT MATERIALIZED (
                 SELECT id, created_at FROM docs.comments
                 WHERE company_id = $1 AND document_id = $2
                   AND ($3::bool IS NULL OR (resolved_at IS NOT NULL) = $3))
               SELECT c.id, c.document_id, c.version, c.body, c.author, c.created_at, c.resolved_at, c.resolved_by,
                 (SELECT count(*) FROM listed) AS "total!"
               FROM (SELECT id, created_at FROM listed ORDER BY created_at, id LIMIT $4 OFFSET $5) p
                 JOIN docs.comments c ON c.id = p.id
               ORDER BY p.created_at, p.id"#,
            admitted.company.as_uuid(),
            admitted.gist.id.as_uuid(),
            match which {
                Which::All => None,
                Which::Open => Some(false),
                Which::Resolved => Some(true),
            },
            limit,
            offset
        )
        .fetch_all(pool)
    };
    page::load(request, rows, |row| row.total, |row| Ok(row.comment())).await
}

/// Adds a comment to the document that the transaction has locked.
pub(super) async fn add(
    tx: &mut CompanyTx,
    document: &StoredDocument,
    body: &str,
) -> Result<Comment, ApiError> {
    let (company, author) = (tx.company().as_uuid(), tx.actor().to_owned());
    let row = sqlx::query_as!(
        Row,
        r#"INSERT INTO docs.comments(id, company_id, document_id, version, body, author)
           VALUES ($1, $2, $3, $4, $5, $6)
           RETURNING id, document_id, version, body, author, created_at, resolved_at, resolved_by, 1::bigint AS "total!""#,
        CommentId::mint().as_uuid(),
        company,
        document.id.as_uuid(),
        document.version,
        body,
        author
    );
    Ok(row.fetch_one(tx.conn()).await?.comment())
}

/// Resolves an open comment; returns `None` when it is not open or unknown.
pub(super) async fn resolve(
    tx: &mut CompanyTx,
    document: DocumentId,
    id: CommentId,
) -> Result<Option<Comment>, ApiError> {
    let (company, actor) = (tx.company().as_uuid(), tx.actor().to_owned());
    let row = sqlx::query_as!(
        Row,
        r#"UPDATE docs.comments SET resolved_at = now(), resolved_by = $4
           WHERE company_id = $1 AND document_id = $2 AND id = $3 AND resolved_at IS NULL
           RETURNING id, document_id, version, body, author, created_at, resolved_at, resolved_by, 1::bigint AS "total!""#,
        company,
        document.as_uuid(),
        id.as_uuid(),
        actor
    );
    Ok(row.fetch_optional(tx.conn()).await?.map(Row::comment))
}

/// Whether the document has this comment.
pub(super) async fn exists(
    tx: &mut CompanyTx,
    document: DocumentId,
    id: CommentId,
) -> Result<bool, ApiError> {
    let company = tx.company().as_uuid();
    let found = sqlx::query_scalar!(
        "SELECT id FROM docs.comments WHERE company_id = $1 AND document_id = $2 AND id = $3",
        company,
        document.as_uuid(),
        id.as_uuid()
    );
    Ok(found.fetch_optional(tx.conn()).await?.is_some())
}
