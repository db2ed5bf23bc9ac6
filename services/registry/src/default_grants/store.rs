//! SQL of the default grants. Companies are read through org's view; tuples are added under authz's row-level security,
//! which lets registry's role write nothing else.

use contract::grants::{ANCHOR_RELATION, DEFAULT_GRANTS_LOCK, SYSTEM_ID, SYSTEM_RELATION};
use sqlx::PgConnection;

/// Keeps companies from being created until this transaction ends. The first statement of its transaction: taken
/// together with a read, the read would not see what the company's transaction committed meanwhile.
pub(crate) async fn lock(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0)) AS "locked!: ()""#,
        DEFAULT_GRANTS_LOCK
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Writes the anchors that are missing.
pub(super) async fn ensure_anchors(conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', c.company_id::text || '/' || m.key, $2, 'company', c.company_id::text, '', 'default'
           FROM registry.modules m CROSS JOIN org.company_facts c
          WHERE m.key = ANY($1) AND m.installed AND m.enabled AND c.is_active
          ORDER BY c.company_id, m.key
         ON CONFLICT DO NOTHING",
        keys,
        ANCHOR_RELATION,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Writes a `system` tuple together with its row in the ledger, where there is no such row yet.
pub(super) async fn write_system_once(conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "WITH first AS (
           INSERT INTO registry.default_grant_ledger(company_id, key)
           SELECT c.company_id, m.key
             FROM registry.modules m CROSS JOIN org.company_facts c
            WHERE m.key = ANY($1) AND m.installed AND m.enabled AND c.is_active
           ON CONFLICT (company_id, key) DO NOTHING
           RETURNING company_id, key)
         INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', company_id::text || '/' || key, $2, 'system', $3, '', 'default'
           FROM first ORDER BY company_id, key
         ON CONFLICT DO NOTHING",
        keys,
        SYSTEM_RELATION,
        SYSTEM_ID,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
