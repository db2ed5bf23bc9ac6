//! The default grants of a new company (module contract, "Default grants"): the anchor and the `system` tuple of every
//! enabled module, written in the transaction that creates the company. Enabling a module writes the same tuples for
//! every active company. So both sides take one advisory lock, shared here and exclusive in registry, in a separate
//! statement before they read; each then sees what the other has committed.

use contract::grants::{ANCHOR_RELATION, DEFAULT_GRANTS_LOCK, SYSTEM_ID, SYSTEM_RELATION};
use contract::id::CompanyId;
use sqlx::PgConnection;

/// Prevents modules from being enabled until this transaction ends. Must be the transaction's first statement.
pub(crate) async fn lock(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended($1, 0)) AS "locked!: ()""#,
        DEFAULT_GRANTS_LOCK
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Writes the default grants that a company lacks: all for a new company; for a reactivated one, those of the modules
/// enabled while it was inactive.
pub(crate) async fn write(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    write_anchors(conn, company).await?;
    write_system_once(conn, company).await
}

async fn write_anchors(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', $1::text || '/' || key, $2, 'company', $1::text, '', 'default'
           FROM registry.granted_modules ORDER BY key
             ON CONFLICT DO NOTHING",
        company.to_string(),
        ANCHOR_RELATION,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes the `system` tuples that the ledger does not list yet, so that an operator's removal of one is permanent.
async fn write_system_once(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    sqlx::query!(
        "WITH first AS (
           INSERT INTO registry.default_grant_ledger(company_id, key)
           SELECT $1::uuid, key FROM registry.granted_modules
               ON CONFLICT (company_id, key) DO NOTHING
           RETURNING key)
         INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', $1::uuid::text || '/' || key, $2, 'system', $3, '', 'default' FROM first ORDER BY key
             ON CONFLICT DO NOTHING",
        company.as_uuid(),
        SYSTEM_RELATION,
        SYSTEM_ID,
    )
    .execute(conn)
    .await?;
    Ok(())
}
