//! Replaces the names that this module stores of members whose account is closed.

use service::forgetting::{FORMER_MEMBER, Forgets, FormerMember};
use sqlx::PgConnection;

/// Replaces a former member's name on documents, folders, shares and ownerships.
#[derive(Clone, Copy, Debug)]
pub struct Names;

impl Forgets for Names {
    async fn forget(conn: &mut PgConnection, former: &FormerMember) -> sqlx::Result<u64> {
        let (company, member) = (former.company_id.as_uuid(), former.member_id.as_uuid());
        let subject = former.kc_sub.as_str();
        let documents = sqlx::query!(
            "UPDATE docs.documents SET owner_label = $3
              WHERE company_id = $1 AND owner_kc_sub = $2 AND owner_label IS NOT NULL",
            company,
            subject,
            FORMER_MEMBER
        )
        .execute(&mut *conn)
        .await?;
        let folders = sqlx::query!(
            "UPDATE docs.folders SET owner_label = $3
              WHERE company_id = $1 AND owner_kc_sub = $2 AND owner_label IS NOT NULL",
            company,
            subject,
            FORMER_MEMBER
        )
        .execute(&mut *conn)
        .await?;
        let shares = sqlx::query!(
            "UPDATE docs.shares SET label = $3 WHERE company_id = $1 AND member_id = $2 AND label IS NOT NULL",
            company,
            member,
            FORMER_MEMBER
        )
        .execute(&mut *conn)
        .await?;
        let ownerships = sqlx::query!(
            "UPDATE docs.ownerships SET label = $3 WHERE company_id = $1 AND member_id = $2 AND label IS NOT NULL",
            company,
            member,
            FORMER_MEMBER
        )
        .execute(conn)
        .await?;
        let changed = [documents, folders, shares, ownerships];
        Ok(changed.iter().map(sqlx::postgres::PgQueryResult::rows_affected).sum())
    }
}
