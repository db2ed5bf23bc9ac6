//! SQL of second factors.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

/// The secret of a user's one-time codes.
pub(crate) struct Totp {
    pub(crate) secret: Vec<u8>,
    /// Step of the last used code.
    pub(crate) last_step: i64,
}

/// The second factors of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Methods {
    /// One-time codes of an app.
    pub(crate) totp: bool,
    pub(crate) passkey: bool,
    /// Recovery codes that stand in for either.
    pub(crate) codes_left: i64,
}

impl Methods {
    /// Whether the password alone does not sign the user in.
    pub(crate) const fn any(self) -> bool {
        self.totp || self.passkey
    }
}

/// Finds the user's second factors.
pub(crate) async fn find(db: impl PgExecutor<'_>, user: Uuid) -> sqlx::Result<Methods> {
    sqlx::query_as!(
        Methods,
        "SELECT EXISTS (SELECT FROM idp.totp WHERE user_id = $1) AS \"totp!\", \
         EXISTS (SELECT FROM idp.passkeys WHERE user_id = $1) AS \"passkey!\", \
         (SELECT count(*) FROM idp.recovery_codes WHERE user_id = $1) AS \"codes_left!\"",
        user
    )
    .fetch_one(db)
    .await
}

/// Reads a user's secret and locks its row until the transaction ends.
pub(crate) async fn lock(conn: &mut PgConnection, user: Uuid) -> sqlx::Result<Option<Totp>> {
    sqlx::query_as!(Totp, "SELECT secret, last_step FROM idp.totp WHERE user_id = $1 FOR UPDATE", user)
        .fetch_optional(conn)
        .await
}

/// Uses a step up; false if it or a later one was used before.
pub(super) async fn use_step(conn: &mut PgConnection, user: Uuid, step: i64) -> sqlx::Result<bool> {
    let changed =
        sqlx::query!("UPDATE idp.totp SET last_step = $2 WHERE user_id = $1 AND last_step < $2", user, step)
            .execute(conn)
            .await?;
    Ok(changed.rows_affected() == 1)
}

/// Uses a recovery code up; false if there is no such code.
pub(super) async fn use_recovery_code(conn: &mut PgConnection, user: Uuid, tag: &[u8]) -> sqlx::Result<bool> {
    let changed =
        sqlx::query!("DELETE FROM idp.recovery_codes WHERE user_id = $1 AND code_tag = $2", user, tag)
            .execute(conn)
            .await?;
    Ok(changed.rows_affected() == 1)
}

/// Adds one-time codes; false if there are some already.
pub(crate) async fn add(
    conn: &mut PgConnection,
    user: Uuid,
    totp: &Totp,
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    let added = sqlx::query!(
        "INSERT INTO idp.totp(user_id, secret, last_step, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT DO NOTHING",
        user,
        totp.secret,
        totp.last_step,
        now
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// Replaces the recovery codes; false without a second factor. The caller holds the user's row.
pub(crate) async fn replace_recovery_codes(
    conn: &mut PgConnection,
    user: Uuid,
    tags: &[Vec<u8>],
) -> sqlx::Result<bool> {
    if !find(&mut *conn, user).await?.any() {
        return Ok(false);
    }
    sqlx::query!("DELETE FROM idp.recovery_codes WHERE user_id = $1", user).execute(&mut *conn).await?;
    sqlx::query!(
        "INSERT INTO idp.recovery_codes(user_id, code_tag) SELECT $1, unnest($2::bytea[])",
        user,
        tags
    )
    .execute(conn)
    .await?;
    Ok(true)
}

/// Removes the recovery codes of a user who has no second factor any more.
pub(crate) async fn drop_spare_codes(conn: &mut PgConnection, user: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM idp.recovery_codes r WHERE r.user_id = $1 \
         AND NOT EXISTS (SELECT FROM idp.totp t WHERE t.user_id = r.user_id) \
         AND NOT EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = r.user_id)",
        user
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes the one-time codes; false if there were none.
pub(crate) async fn remove(conn: &mut PgConnection, user: Uuid) -> sqlx::Result<bool> {
    let removed = sqlx::query!("DELETE FROM idp.totp WHERE user_id = $1", user).execute(conn).await?;
    Ok(removed.rows_affected() == 1)
}
