//! The companies of a summary.

use contract::Subject;
use contract::id::CompanyId;
use sqlx::PgPool;

/// The active companies in which the subject is an active member, in ascending order of their ids.
pub(super) async fn companies(pool: &PgPool, subject: &Subject) -> sqlx::Result<Vec<CompanyId>> {
    let ids = sqlx::query_scalar!(
        r#"SELECT m.company_id AS "id!" FROM org.member_facts m JOIN org.company_facts c ON c.company_id = m.company_id
           WHERE m.kc_sub = $1 AND m.is_active AND c.is_active ORDER BY m.company_id"#,
        subject.as_str()
    );
    Ok(ids.fetch_all(pool).await?.into_iter().map(CompanyId::from).collect())
}
