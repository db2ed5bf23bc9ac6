//! The default grants of a new company (module contract, "Default grants"): for every enabled module the anchor and the
//! `system` tuple, in the company's own transaction. Enabling a module writes the same for every active company, so
//! both sides take one advisory lock, here shared and there exclusive, in a statement of its own before they read: each
//! then sees what the other committed.

use contract::grants::{ANCHOR_RELATION, DEFAULT_GRANTS_LOCK, SYSTEM_ID, SYSTEM_RELATION};
use contract::id::CompanyId;
use sqlx::PgConnection;

/// Keeps modules from being enabled until this transaction ends. The first statement of its transaction.
pub(crate) async fn lock(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended($1, 0)) AS "locked!: ()""#,
        DEFAULT_GRANTS_LOCK
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Writes them for a company that has none yet, or not those of the modules that were enabled while it was inactive.
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

/// The ledger says that the `system` tuple was written once: an operator's removal of it is then for good.
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
