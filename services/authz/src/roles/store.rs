//! The SQL of the platform role: tuples, guard and ledger.

use contract::decision::SUPERADMIN;
use sqlx::PgConnection;

use super::Change;
use super::rules::Holder;

/// Locks the guard until the transaction ends. This is a statement of its own, so that later statements see what others
/// committed before the lock was acquired. The lock is never shared: a stream of shared locks would starve a
/// revocation.
pub(crate) async fn lock_guard(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("SELECT one FROM authz.superadmin_guard FOR UPDATE").fetch_one(conn).await?;
    Ok(())
}

/// The holders of the role.
pub(super) async fn holders(conn: &mut PgConnection) -> sqlx::Result<Vec<Holder>> {
    sqlx::query_as!(
        Holder,
        r#"SELECT t.subject_id AS "subject!", coalesce(facts.lifecycle = 'active' AND facts.idp_enabled, false) AS "active!"
             FROM authz.tuple t LEFT JOIN identity.subject_facts facts ON facts.kc_sub = t.subject_id
            WHERE t.object_type = 'system' AND t.object_id = 'platform' AND t.relation = 'superadmin'
              AND t.subject_type = 'user' AND t.subject_relation = ''"#
    )
    .fetch_all(conn)
    .await
}

/// Whether identity has a record of the subject, and has not closed it: a closed subject never comes back.
pub(super) async fn is_known(conn: &mut PgConnection, subject: &str) -> sqlx::Result<bool> {
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM identity.subject_facts WHERE kc_sub = $1 AND lifecycle <> 'closed') AS "known!""#,
        subject
    );
    known.fetch_one(conn).await
}

/// Grants the role; returns false when the subject already held it.
pub(super) async fn add(conn: &mut PgConnection, subject: &str) -> sqlx::Result<bool> {
    let added = sqlx::query!(
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         VALUES ('system', 'platform', 'superadmin', 'user', $1, '', 'role') ON CONFLICT DO NOTHING",
        subject
    );
    Ok(added.execute(conn).await?.rows_affected() > 0)
}

/// Revokes the role.
pub(super) async fn remove(conn: &mut PgConnection, subject: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM authz.tuple
          WHERE object_type = 'system' AND object_id = 'platform' AND relation = 'superadmin'
            AND subject_type = 'user' AND subject_id = $1 AND subject_relation = ''",
        subject
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds an entry to the ledger.
pub(super) async fn write_ledger(
    conn: &mut PgConnection,
    subject: &str,
    change: Change,
    actor: &str,
    correlation: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO authz.role_ledger(role, subject, change, actor, correlation_id) VALUES ($1, $2, $3, $4, $5)",
        SUPERADMIN,
        subject,
        change.word(),
        actor,
        correlation,
    )
    .execute(conn)
    .await?;
    Ok(())
}
