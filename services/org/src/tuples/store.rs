//! Makes `authz.tuple` (source `org`) equal to `org.derived_tuples`, and finds where it is not.

use contract::id::CompanyId;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Rewrites the tuples of one subject in a company, or of the whole company, from the rows as this transaction sees
/// them; gives the number of tuples that changed. The caller holds the company's row and, for one subject, its member's.
pub(crate) async fn rewrite(
    conn: &mut PgConnection,
    company: CompanyId,
    subject: Option<&str>,
) -> sqlx::Result<u64> {
    let removed = remove_stale(conn, company, subject).await?;
    Ok(removed + add_missing(conn, company, subject).await?)
}

async fn remove_stale(
    conn: &mut PgConnection,
    company: CompanyId,
    subject: Option<&str>,
) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM authz.tuple t
          WHERE t.source = 'org' AND ($2::text IS NULL OR (t.subject_type = 'user' AND t.subject_id = $2))
            AND ((t.object_type = 'company' AND t.object_id = $1::uuid::text)
              OR (t.object_type = 'position' AND t.object_id IN (SELECT id::text FROM org.positions WHERE company_id = $1))
              OR (t.object_type = 'group' AND t.object_id IN (SELECT id::text FROM org.groups WHERE company_id = $1)))
            AND NOT EXISTS (
              SELECT FROM org.derived_tuples d
               WHERE d.company_id = $1 AND ($2 IS NULL OR d.subject_id = $2)
                 AND t.subject_type = 'user' AND t.subject_relation = ''
                 AND (d.object_type, d.object_id, d.relation, d.subject_id)
                   = (t.object_type, t.object_id, t.relation, t.subject_id))",
        company.as_uuid(),
        subject,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

async fn add_missing(
    conn: &mut PgConnection,
    company: CompanyId,
    subject: Option<&str>,
) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT d.object_type, d.object_id, d.relation, 'user', d.subject_id, '', 'org'
           FROM org.derived_tuples d
          WHERE d.company_id = $1 AND ($2::text IS NULL OR d.subject_id = $2)
          ORDER BY 1, 2, 3, 5
             ON CONFLICT DO NOTHING",
        company.as_uuid(),
        subject,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// The companies whose tuples differ from their rows; `None` stands for tuples of no company that there is.
pub(crate) async fn differing(pool: &PgPool) -> sqlx::Result<Vec<Option<CompanyId>>> {
    let rows = sqlx::query_scalar!(
        r#"WITH held AS (
             SELECT object_type, object_id, relation, subject_type, subject_id, subject_relation
               FROM authz.tuple WHERE source = 'org'),
           defined AS (
             SELECT object_type, object_id, relation, 'user' AS subject_type, subject_id, '' AS subject_relation
               FROM org.derived_tuples),
           different AS (
             (SELECT * FROM held EXCEPT SELECT * FROM defined) UNION ALL
             (SELECT * FROM defined EXCEPT SELECT * FROM held))
           SELECT DISTINCT coalesce(c.id, p.company_id, g.company_id) AS company
             FROM different d
             LEFT JOIN org.units c ON d.object_type = 'company' AND c.type_key = 'company' AND c.id::text = d.object_id
             LEFT JOIN org.positions p ON d.object_type = 'position' AND p.id::text = d.object_id
             LEFT JOIN org.groups g ON d.object_type = 'group' AND g.id::text = d.object_id"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|company: Option<Uuid>| company.map(CompanyId::from)).collect())
}

/// Holds a company's row alone until the transaction ends, so that no write below it is under way.
pub(crate) async fn hold_company(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    sqlx::query!("SELECT id FROM org.units WHERE id = $1 FOR UPDATE", company.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(())
}

/// Removes the tuples that belong to no company, position or group that there is. Such ids never come into being
/// later: every id is minted once.
pub(crate) async fn remove_orphans(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM authz.tuple t
          WHERE t.source = 'org' AND NOT EXISTS (
            SELECT FROM org.units c WHERE t.object_type = 'company' AND c.type_key = 'company' AND c.id::text = t.object_id
            UNION ALL SELECT FROM org.positions p WHERE t.object_type = 'position' AND p.id::text = t.object_id
            UNION ALL SELECT FROM org.groups g WHERE t.object_type = 'group' AND g.id::text = t.object_id)"
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
