//! SQL of the default grants. Companies are read through org's view. authz's row-level security allows registry's role
//! to write only these tuples.

use contract::grants::{ANCHOR_RELATION, DEFAULT_GRANTS_LOCK, SYSTEM_ID, SYSTEM_RELATION};
use sqlx::PgConnection;
use uuid::Uuid;

/// Prevents companies from being created until this transaction ends. Must be the transaction's first statement: a read
/// in the same statement would miss what the other transaction committed while this one waited.
pub(crate) async fn lock(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0)) AS "locked!: ()""#,
        DEFAULT_GRANTS_LOCK
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Lists active companies with ids greater than `after`.
pub(super) async fn companies_after(
    conn: &mut PgConnection,
    after: Uuid,
    limit: usize,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"SELECT company_id AS "company_id!" FROM org.company_facts
            WHERE is_active AND company_id > $1 ORDER BY company_id LIMIT $2"#,
        after,
        i64::try_from(limit).unwrap_or(i64::MAX)
    )
    .fetch_all(conn)
    .await
}

/// Counts the active companies.
pub(crate) async fn active_companies(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM org.company_facts WHERE is_active"#)
        .fetch_one(conn)
        .await
}

/// Writes the missing anchors.
pub(super) async fn ensure_anchors(
    conn: &mut PgConnection,
    keys: &[String],
    companies: &[Uuid],
) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', c.company_id::text || '/' || m.key, $3, 'company', c.company_id::text, '', 'default'
           FROM registry.granted_modules m CROSS JOIN unnest($2::uuid[]) AS c(company_id)
          WHERE m.key = ANY($1)
          ORDER BY c.company_id, m.key
         ON CONFLICT DO NOTHING",
        keys,
        companies,
        ANCHOR_RELATION,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Writes the `system` tuples that the ledger does not list yet, together with their ledger rows.
pub(super) async fn write_system_once(
    conn: &mut PgConnection,
    keys: &[String],
    companies: &[Uuid],
) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "WITH first AS (
           INSERT INTO registry.default_grant_ledger(company_id, key)
           SELECT c.company_id, m.key
             FROM registry.granted_modules m CROSS JOIN unnest($2::uuid[]) AS c(company_id)
            WHERE m.key = ANY($1)
           ON CONFLICT (company_id, key) DO NOTHING
           RETURNING company_id, key)
         INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company_module', company_id::text || '/' || key, $3, 'system', $4, '', 'default'
           FROM first ORDER BY company_id, key
         ON CONFLICT DO NOTHING",
        keys,
        companies,
        SYSTEM_RELATION,
        SYSTEM_ID,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
