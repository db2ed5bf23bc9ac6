//! SQL of passkeys.

use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::users::passwords::CredentialDigest;

/// A passkey as its user sees it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) last_used_at: Option<OffsetDateTime>,
}

/// A user's passkeys, the oldest first.
pub(crate) async fn of_user(db: impl PgExecutor<'_>, user: Uuid) -> sqlx::Result<Vec<Listed>> {
    sqlx::query_as!(
        Listed,
        "SELECT id, name, created_at, last_used_at FROM idp.passkeys WHERE user_id = $1 ORDER BY created_at, id",
        user
    )
    .fetch_all(db)
    .await
}

/// The ids by which authenticators know a user's passkeys.
pub(crate) async fn credential_ids(db: impl PgExecutor<'_>, user: Uuid) -> sqlx::Result<Vec<Vec<u8>>> {
    sqlx::query_scalar!(
        "SELECT credential_id FROM idp.passkeys WHERE user_id = $1 ORDER BY created_at, id",
        user
    )
    .fetch_all(db)
    .await
}

/// The digests of a user's passkeys.
pub(crate) async fn digests(db: impl PgExecutor<'_>, user: Uuid) -> sqlx::Result<Vec<CredentialDigest>> {
    Ok(credential_ids(db, user).await?.into_iter().map(CredentialDigest::of).collect())
}

/// Whether this passkey is the user's.
pub(crate) async fn is_known(
    db: impl PgExecutor<'_>,
    user: Uuid,
    credential_id: &[u8],
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        "SELECT EXISTS (SELECT FROM idp.passkeys WHERE user_id = $1 AND credential_id = $2) AS \"is_known!\"",
        user,
        credential_id
    )
    .fetch_one(db)
    .await
}

/// A passkey as it is kept.
pub(crate) struct Stored {
    pub(crate) id: Uuid,
    pub(crate) credential: Value,
}

/// A user's passkey, locked until the transaction ends.
pub(crate) async fn lock(
    conn: &mut PgConnection,
    user: Uuid,
    credential_id: &[u8],
) -> sqlx::Result<Option<Stored>> {
    sqlx::query_as!(
        Stored,
        "SELECT id, credential FROM idp.passkeys WHERE user_id = $1 AND credential_id = $2 FOR UPDATE",
        user,
        credential_id
    )
    .fetch_optional(conn)
    .await
}

/// Keeps the signature counter and the moment of a use.
pub(crate) async fn mark_used(
    conn: &mut PgConnection,
    id: Uuid,
    credential: &Value,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE idp.passkeys SET credential = $2, last_used_at = $3 WHERE id = $1",
        id,
        credential,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A passkey to be added.
pub(crate) struct NewPasskey<'a> {
    pub(crate) id: Uuid,
    pub(crate) user: Uuid,
    pub(crate) credential_id: &'a [u8],
    pub(crate) credential: &'a Value,
    pub(crate) name: &'a str,
    pub(crate) now: OffsetDateTime,
}

/// Adds a passkey; false when there is one of its id.
pub(crate) async fn add(conn: &mut PgConnection, passkey: &NewPasskey<'_>) -> sqlx::Result<bool> {
    let added = sqlx::query!(
        "INSERT INTO idp.passkeys(id, user_id, credential_id, credential, name, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        passkey.id,
        passkey.user,
        passkey.credential_id,
        passkey.credential,
        passkey.name,
        passkey.now
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// Removes a passkey of this user; false when there was none.
pub(crate) async fn remove(conn: &mut PgConnection, user: Uuid, id: Uuid) -> sqlx::Result<bool> {
    let removed = sqlx::query!("DELETE FROM idp.passkeys WHERE user_id = $1 AND id = $2", user, id);
    Ok(removed.execute(conn).await?.rows_affected() == 1)
}

/// Removes every passkey of this user; how many there were.
pub(crate) async fn remove_all(conn: &mut PgConnection, user: Uuid) -> sqlx::Result<u64> {
    let removed = sqlx::query!("DELETE FROM idp.passkeys WHERE user_id = $1", user);
    Ok(removed.execute(conn).await?.rows_affected())
}

/// Uses a challenge up; false when it was used before.
pub(super) async fn use_challenge(
    conn: &mut PgConnection,
    challenge_hash: &[u8],
    expires_at: OffsetDateTime,
) -> sqlx::Result<bool> {
    let added = sqlx::query!(
        "INSERT INTO idp.used_challenges(challenge_hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        challenge_hash,
        expires_at
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// Forgets at most `batch` challenges whose forms have run out; returns how many.
pub(crate) async fn remove_expired(
    conn: &mut PgConnection,
    now: OffsetDateTime,
    batch: i64,
) -> sqlx::Result<u64> {
    let removed = sqlx::query!(
        "DELETE FROM idp.used_challenges WHERE challenge_hash IN \
         (SELECT challenge_hash FROM idp.used_challenges WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        now,
        batch
    )
    .execute(conn)
    .await?;
    Ok(removed.rows_affected())
}
