//! `helpdesk.comments`.

use contract::id::CompanyId;
use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Comment, CommentBody, CommentId, MAX_COMMENTS, Visibility};
use crate::tickets::rules::{MAX_TEXT, TicketId};

struct Row {
    id: Uuid,
    author_kc_sub: String,
    body: String,
    visibility: String,
    created_at: OffsetDateTime,
}

/// Lists the latest comments of a ticket, latest first; reads one more than a list may have, in number or in bytes of
/// text, to detect truncation. `octet_length` does not read the stored text. Internal comments are only for those who
/// work on tickets.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    ticket: TicketId,
    internal_too: bool,
) -> Result<Vec<Comment>, ApiError> {
    let limit = i64::try_from(MAX_COMMENTS).map_err(ApiError::internal)? + 1;
    let company: CompanyId = permit.company;
    let rows = sqlx::query_as!(
        Row,
        "SELECT id, author_kc_sub, body, visibility, created_at
         FROM (SELECT found.*, sum(octet_length(found.body)) OVER (
             ORDER BY found.created_at DESC, found.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
           FROM (SELECT * FROM helpdesk.comments
             WHERE company_id = $1 AND ticket_id = $2 AND ($3::bool OR visibility = 'public')
             ORDER BY created_at DESC, id DESC LIMIT $4) AS found) AS latest
         WHERE COALESCE(before, 0) <= $5::bigint ORDER BY created_at DESC, id DESC",
        company.as_uuid(),
        ticket.as_uuid(),
        internal_too,
        limit,
        i64::try_from(MAX_TEXT).map_err(ApiError::internal)?
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(|row| row.comment(ticket)).collect()
}

/// Adds a comment to a ticket that the transaction has locked.
pub(super) async fn insert(
    tx: &mut CompanyTx,
    ticket: TicketId,
    body: CommentBody,
) -> Result<Comment, ApiError> {
    let (id, company, author) = (CommentId::mint(), tx.company(), tx.actor().to_owned());
    // The later of two comments on one ticket waits for the ticket's lock, so the time of the statement orders them.
    let created_at = sqlx::query_scalar!(
        "INSERT INTO helpdesk.comments(id, company_id, ticket_id, author_kc_sub, body, visibility, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, statement_timestamp()) RETURNING created_at",
        id.as_uuid(),
        company.as_uuid(),
        ticket.as_uuid(),
        author,
        body.body,
        body.visibility.word()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(Comment {
        id,
        ticket_id: ticket,
        author_kc_sub: author,
        body: body.body,
        visibility: body.visibility,
        created_at: created_at.into(),
    })
}

impl Row {
    fn comment(self, ticket: TicketId) -> Result<Comment, ApiError> {
        Ok(Comment {
            id: self.id.into(),
            ticket_id: ticket,
            author_kc_sub: self.author_kc_sub,
            body: self.body,
            visibility: Visibility::of_word(&self.visibility)?,
            created_at: self.created_at.into(),
        })
    }
}
