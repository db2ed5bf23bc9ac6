//! Finds tickets that are due, and closes one with a conditional update.

use contract::id::CompanyId;
use service::{ApiError, CompanyTx};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::tickets::rules::TicketId;

/// A ticket that is due to be closed.
pub(super) struct Due {
    id: Uuid,
    company_id: Uuid,
    pub(super) number: i64,
    pub(super) reporter_kc_sub: String,
    resolved_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

impl Due {
    pub(super) fn id(&self) -> TicketId {
        self.id.into()
    }

    pub(super) fn company(&self) -> CompanyId {
        self.company_id.into()
    }
}

/// Lists companies that close tickets automatically, after a given one.
pub(super) async fn companies(
    pool: &PgPool,
    after: Option<CompanyId>,
    limit: i64,
) -> Result<Vec<CompanyId>, ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT company_id FROM helpdesk.settings
         WHERE auto_close_resolved_days IS NOT NULL AND ($1::uuid IS NULL OR company_id > $1)
         ORDER BY company_id LIMIT $2",
        after.map(CompanyId::as_uuid),
        limit
    );
    Ok(found.fetch_all(pool).await?.into_iter().map(CompanyId::from).collect())
}

/// Finds due tickets of these companies, at most `limit` of each: those that were resolved, and last changed, as long ago
/// as the company's rules say.
pub(super) async fn due(
    pool: &PgPool,
    companies: &[CompanyId],
    now: OffsetDateTime,
    limit: i64,
) -> Result<Vec<Due>, ApiError> {
    let companies: Vec<Uuid> = companies.iter().map(|company| company.as_uuid()).collect();
    let due = sqlx::query_as!(
        Due,
        r#"SELECT t.id, t.company_id, t.number, t.reporter_kc_sub, t.resolved_at AS "resolved_at!", t.updated_at
           FROM helpdesk.settings s
           CROSS JOIN LATERAL (
             SELECT id, company_id, number, reporter_kc_sub, resolved_at, updated_at FROM helpdesk.tickets
             WHERE company_id = s.company_id AND status = 'resolved'
               AND resolved_at <= $1::timestamptz - make_interval(days => s.auto_close_resolved_days)
               AND updated_at <= $1 - make_interval(days => s.auto_close_resolved_days)
             ORDER BY resolved_at, id LIMIT $2) AS t
           WHERE s.company_id = ANY($3) AND s.auto_close_resolved_days IS NOT NULL ORDER BY t.company_id"#,
        now,
        limit,
        &companies
    );
    Ok(due.fetch_all(pool).await?)
}

/// Closes a ticket if it has not changed since it was read; otherwise returns false.
pub(super) async fn close(tx: &mut CompanyTx, ticket: &Due) -> Result<bool, ApiError> {
    let closed = sqlx::query!(
        "UPDATE helpdesk.tickets SET status = 'closed', resolved_at = NULL, updated_at = GREATEST(updated_at, now())
         WHERE company_id = $1 AND id = $2 AND status = 'resolved' AND resolved_at = $3 AND updated_at = $4",
        tx.company().as_uuid(),
        ticket.id,
        ticket.resolved_at,
        ticket.updated_at
    )
    .execute(tx.conn())
    .await?;
    Ok(closed.rows_affected() == 1)
}
