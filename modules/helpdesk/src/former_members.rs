//! Replaces the names that this module stores of members whose account is closed.

use service::forgetting::{FORMER_MEMBER, Forgets, FormerMember};
use sqlx::PgConnection;

/// Replaces a former member's name on tickets and bindings.
#[derive(Clone, Copy, Debug)]
pub struct Names;

impl Forgets for Names {
    async fn forget(conn: &mut PgConnection, former: &FormerMember) -> sqlx::Result<u64> {
        let (company, member) = (former.company_id.as_uuid(), former.member_id.as_uuid());
        let tickets = sqlx::query!(
            "UPDATE helpdesk.tickets SET assignee_label = $3
              WHERE company_id = $1 AND assignee_member_id = $2 AND assignee_label IS NOT NULL",
            company,
            member,
            FORMER_MEMBER
        )
        .execute(&mut *conn)
        .await?;
        let bindings = sqlx::query!(
            "UPDATE helpdesk.bindings SET label = $3 WHERE company_id = $1 AND member_id = $2 AND label IS NOT NULL",
            company,
            member,
            FORMER_MEMBER
        )
        .execute(conn)
        .await?;
        Ok(tickets.rows_affected() + bindings.rows_affected())
    }
}
