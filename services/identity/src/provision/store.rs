//! Inserts and updates of `identity.users`.

use contract::Subject;
use sqlx::{PgConnection, PgPool};

use super::rules::{AccountState, NewUser, Profile};

/// Whether there is a record.
pub(super) async fn exists(pool: &PgPool, subject: &Subject) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS(SELECT FROM identity.users WHERE kc_sub = $1) AS "exists!""#,
        subject.as_str()
    )
    .fetch_one(pool)
    .await
}

/// Adds the record. Returns the salt of the names in its audit rows, or `None` if another call added it first.
pub(super) async fn insert(
    conn: &mut PgConnection,
    user: &NewUser,
    state: AccountState,
) -> sqlx::Result<Option<Vec<u8>>> {
    let added = sqlx::query_scalar!(
        "INSERT INTO identity.users(kc_sub, kind, email, display_name, preferred_username, idp_enabled, idp_gone_at,
                idp_checked_at)
         VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $7 THEN now() END, now())
             ON CONFLICT (kc_sub) DO NOTHING RETURNING name_salt",
        user.subject.as_str(),
        user.kind.as_str(),
        user.profile.email,
        user.profile.display_name,
        user.profile.preferred_username,
        state.is_enabled(),
        state.is_gone(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(added.flatten())
}

/// Whether the subject was last seen over five minutes ago or has other display data. Never true for a closed record.
pub(super) async fn needs_refresh(pool: &PgPool, user: &NewUser) -> sqlx::Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT (last_seen_at < now() - interval '5 minutes'
                OR coalesce($2, email) IS DISTINCT FROM email
                OR coalesce($3, display_name) IS DISTINCT FROM display_name
                OR coalesce($4, preferred_username) IS DISTINCT FROM preferred_username) AS "needed!"
             FROM identity.users WHERE kc_sub = $1 AND lifecycle <> 'closed'"#,
        user.subject.as_str(),
        user.profile.email,
        user.profile.display_name,
        user.profile.preferred_username,
    )
    .fetch_optional(pool)
    .await?;
    Ok(found.unwrap_or(false))
}

/// Reads the display data and the salt of a record that is not closed, and locks its row until the transaction ends.
pub(super) async fn lock_profile(
    conn: &mut PgConnection,
    subject: &Subject,
) -> sqlx::Result<Option<(Profile, Vec<u8>)>> {
    let row = sqlx::query!(
        r#"SELECT email, display_name, preferred_username, name_salt AS "name_salt!" FROM identity.users
            WHERE kc_sub = $1 AND lifecycle <> 'closed' FOR UPDATE"#,
        subject.as_str()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let (email, display_name, preferred_username) = (row.email, row.display_name, row.preferred_username);
        (Profile { email, display_name, preferred_username }, row.name_salt)
    }))
}

/// Stores the display data and the time at which the subject was seen.
pub(super) async fn touch(conn: &mut PgConnection, subject: &Subject, profile: &Profile) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE identity.users SET email = $2, display_name = $3, preferred_username = $4, last_seen_at = now()
          WHERE kc_sub = $1",
        subject.as_str(),
        profile.email,
        profile.display_name,
        profile.preferred_username,
    )
    .execute(conn)
    .await?;
    Ok(())
}
