//! SQL of the keys. They are only ever added: the role may not change or remove one.

use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::keys::rules::StoredKey;

/// Every signing key, the newest first.
pub(crate) async fn signing_keys(conn: &mut PgConnection) -> sqlx::Result<Vec<StoredKey>> {
    sqlx::query_as!(
        StoredKey,
        "SELECT kid, private_key AS private, public_key AS public FROM idp.signing_keys \
         ORDER BY created_at DESC, kid"
    )
    .fetch_all(conn)
    .await
}

pub(crate) async fn add_signing_key(
    conn: &mut PgConnection,
    key: &StoredKey,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO idp.signing_keys(kid, private_key, public_key, created_at) VALUES ($1, $2, $3, $4)",
        key.kid,
        key.private,
        key.public,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The key of the provider's digests.
pub(crate) async fn digest_secret(conn: &mut PgConnection) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!("SELECT value FROM idp.secrets WHERE name = 'digests'").fetch_optional(conn).await
}

pub(crate) async fn add_digest_secret(
    conn: &mut PgConnection,
    value: &[u8],
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!("INSERT INTO idp.secrets(name, value, created_at) VALUES ('digests', $1, $2)", value, now)
        .execute(conn)
        .await?;
    Ok(())
}

/// Makes starts take turns until the transaction ends.
pub(crate) async fn take_turn(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('idp.reconcile', 0))").execute(conn).await?;
    Ok(())
}
