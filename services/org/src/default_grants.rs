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

/// Writes them for a company that has none yet.
pub(crate) async fn write(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    let keys = enabled_modules(conn).await?;
    write_tuples(conn, company, &keys).await?;
    write_ledger(conn, company, &keys).await
}

async fn enabled_modules(conn: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("SELECT key FROM registry.modules WHERE installed AND enabled ORDER BY key")
        .fetch_all(conn)
        .await
}

async fn write_tuples(conn: &mut PgConnection, company: CompanyId, keys: &[String]) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', $1::text || '/' || key, pair.relation, pair.subject_type, pair.subject_id, '', 'default'
           FROM unnest($2::text[]) AS key,
                (VALUES ($3, 'company', $1::text), ($4, 'system', $5)) AS pair(relation, subject_type, subject_id)
          ORDER BY key, pair.relation",
        company.to_string(),
        keys,
        ANCHOR_RELATION,
        SYSTEM_RELATION,
        SYSTEM_ID,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The ledger says that the `system` tuple was written once: an operator's removal of it is then for good.
async fn write_ledger(conn: &mut PgConnection, company: CompanyId, keys: &[String]) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO registry.default_grant_ledger(company_id, key) SELECT $1, key FROM unnest($2::text[]) AS key",
        company.as_uuid(),
        keys,
    )
    .execute(conn)
    .await?;
    Ok(())
}
