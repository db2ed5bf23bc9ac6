//! SQL of the operators' routes: the tuples of company administrators and the activity flag of units.

use contract::Subject;
use contract::id::{CompanyId, UnitId};
use sqlx::PgConnection;

/// Grants the role; returns false if the subject already holds it.
pub(super) async fn add_admin(
    conn: &mut PgConnection,
    company: CompanyId,
    subject: &Subject,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         VALUES ('company', $1::uuid::text, 'admin', 'user', $2, '', 'operator') ON CONFLICT DO NOTHING",
        company.as_uuid(),
        subject.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Revokes the role; returns false if the subject does not hold it.
pub(super) async fn remove_admin(
    conn: &mut PgConnection,
    company: CompanyId,
    subject: &Subject,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "DELETE FROM authz.tuple WHERE object_type = 'company' AND object_id = $1::uuid::text AND relation = 'admin'
            AND subject_type = 'user' AND subject_id = $2 AND subject_relation = '' AND source = 'operator'",
        company.as_uuid(),
        subject.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns the unit's company and locks the unit's row until the transaction ends.
pub(super) async fn hold_unit(conn: &mut PgConnection, unit: UnitId) -> sqlx::Result<Option<CompanyId>> {
    let company =
        sqlx::query_scalar!("SELECT company_id FROM org.units WHERE id = $1 FOR UPDATE", unit.as_uuid())
            .fetch_optional(conn)
            .await?;
    Ok(company.map(CompanyId::from))
}

/// Stores the flag; returns false if it already had this value.
pub(super) async fn set_active(conn: &mut PgConnection, unit: UnitId, is_active: bool) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "UPDATE org.units SET is_active = $2, updated_at = now() WHERE id = $1 AND is_active <> $2",
        unit.as_uuid(),
        is_active,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
