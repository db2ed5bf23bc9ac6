//! SQL of the keys. The database role may not change a key, only mark it as replaced.

use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::keys::rules::{NewKey, StoredKey};

/// Every signing key, the active one first, then the newest.
pub(crate) async fn signing_keys(conn: &mut PgConnection) -> sqlx::Result<Vec<StoredKey>> {
    sqlx::query_as!(
        StoredKey,
        "SELECT kid, private_key AS private, public_key AS public, created_at, replaced_at FROM idp.signing_keys \
         ORDER BY replaced_at DESC NULLS FIRST, kid"
    )
    .fetch_all(conn)
    .await
}

pub(crate) async fn add_signing_key(
    conn: &mut PgConnection,
    key: &NewKey,
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

/// Marks the active key as replaced now; returns its id.
pub(crate) async fn replace_active(
    conn: &mut PgConnection,
    now: OffsetDateTime,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "UPDATE idp.signing_keys SET replaced_at = $1 WHERE replaced_at IS NULL RETURNING kid",
        now
    )
    .fetch_optional(conn)
    .await
}

/// Removes the keys that were replaced before `limit`; returns their ids.
pub(crate) async fn remove_replaced(
    conn: &mut PgConnection,
    limit: OffsetDateTime,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("DELETE FROM idp.signing_keys WHERE replaced_at < $1 RETURNING kid", limit)
        .fetch_all(conn)
        .await
}

/// The key of the provider's keyed digests.
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

/// Takes the lock that serialises starts and rotations, until the transaction ends.
pub(crate) async fn lock_rotation(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('idp.reconcile', 0))").execute(conn).await?;
    Ok(())
}
