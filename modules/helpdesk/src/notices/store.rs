//! `helpdesk.notices`.

use contract::{CorrelationId, Subject};
use service::{ApiError, CompanyTx, Permit};
use uuid::Uuid;

use super::rules::Notice;

/// Adds a notice of a change that the caller makes.
pub(crate) async fn add(tx: &mut CompanyTx, permit: &Permit, notice: &Notice) -> Result<(), ApiError> {
    add_for(tx, &permit.subject, Some(&permit.correlation), notice).await
}

/// Adds a notice of a change that a worker makes on behalf of a subject.
pub(crate) async fn add_for(
    tx: &mut CompanyTx,
    subject: &Subject,
    correlation: Option<&CorrelationId>,
    notice: &Notice,
) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO helpdesk.notices(id, company_id, ticket_id, subject, event_type, subject_line, body, correlation_id,
           is_ready)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true)",
        Uuid::now_v7(),
        tx.company().as_uuid(),
        notice.ticket.as_uuid(),
        subject.as_str(),
        notice.event_type(),
        notice.subject_line(),
        notice.body(),
        correlation.map(CorrelationId::as_str)
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Records why a notice was given up.
pub(super) async fn explain(tx: &mut CompanyTx, id: Uuid, class: &str) -> Result<(), ApiError> {
    sqlx::query!("UPDATE helpdesk.notices SET error_class = $2 WHERE id = $1", id, class)
        .execute(tx.conn())
        .await?;
    Ok(())
}
