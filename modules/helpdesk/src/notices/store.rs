//! `helpdesk.notices`.

use contract::{CorrelationId, Subject};
use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;
use uuid::Uuid;

use super::rules::Notice;

/// Notices removed by one statement: few row locks at a time.
const BATCH: i64 = 1_000;
/// How long settled notices are kept, by state.
const KEPT_DAYS: [(&str, i32); 2] = [("done", 7), ("dead", 30)];

/// Adds a notice of a change that the caller makes.
pub(crate) async fn add(tx: &mut CompanyTx, permit: &Permit, notice: &Notice) -> Result<(), ApiError> {
    add_for(tx, &permit.subject, Some(&permit.correlation), notice).await
}

/// Adds a notice of a change that a worker makes, in the name of a subject.
pub(crate) async fn add_for(
    tx: &mut CompanyTx,
    subject: &Subject,
    correlation: Option<&CorrelationId>,
    notice: &Notice,
) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO helpdesk.notices(id, company_id, ticket_id, subject, event_type, subject_line, body, correlation_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
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

/// Says with a notice why it was given up.
pub(super) async fn explain(tx: &mut CompanyTx, id: Uuid, class: &str) -> Result<(), ApiError> {
    sqlx::query!("UPDATE helpdesk.notices SET error_class = $2 WHERE id = $1", id, class)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Removes settled notices whose time is over; tells how many.
pub(super) async fn sweep(pool: &PgPool) -> sqlx::Result<u64> {
    let mut removed = 0;
    for (state, days) in KEPT_DAYS {
        loop {
            let batch = sqlx::query!(
                "DELETE FROM helpdesk.notices WHERE id = ANY(ARRAY(
                   SELECT id FROM helpdesk.notices
                   WHERE state = $1 AND state <> 'pending' AND settled_at < now() - make_interval(days => $2)
                   ORDER BY settled_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
                state,
                days,
                BATCH
            )
            .execute(pool)
            .await?
            .rows_affected();
            removed += batch;
            if i64::try_from(batch).is_ok_and(|batch| batch < BATCH) {
                break;
            }
        }
    }
    Ok(removed)
}
