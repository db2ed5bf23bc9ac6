//! SQL of the subjects of backends.

use contract::Subject;
use sqlx::{PgConnection, PgPool};

/// An app's client and its stored subject.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) key: String,
    pub(super) client_id: String,
    pub(super) subject: Option<String>,
}

/// Lists every registered app by key.
pub(super) async fn all(pool: &PgPool) -> sqlx::Result<Vec<Backend>> {
    sqlx::query_as!(
        Backend,
        r#"SELECT key, service_client_id AS "client_id!", service_subject AS subject
             FROM registry.modules WHERE service_client_id IS NOT NULL ORDER BY key"#
    )
    .fetch_all(pool)
    .await
}

/// Stores the subject, which differs from the backend's; returns false if another client or subject was stored since the
/// backend was read. The caller must hold the catalog's lock.
pub(super) async fn set(
    conn: &mut PgConnection,
    backend: &Backend,
    subject: Option<&Subject>,
) -> sqlx::Result<bool> {
    let changed = sqlx::query!(
        "UPDATE registry.modules SET service_subject = $3, updated_at = now()
          WHERE key = $1 AND service_client_id = $2 AND service_subject IS NOT DISTINCT FROM $4",
        backend.key,
        backend.client_id,
        subject.map(Subject::as_str),
        backend.subject.as_deref(),
    );
    Ok(changed.execute(conn).await?.rows_affected() > 0)
}
