//! SQL of users.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::login::ticket::{Proof, Proved};
use crate::passkeys;
use crate::second_factors;
use crate::users::passwords::CredentialDigest;
use crate::users::rules::User;

/// A user and the hash of the password; `None` for a service account.
pub(crate) struct Login {
    pub(crate) user: User,
    pub(crate) password_hash: Option<String>,
}

/// Finds the user with this username or e-mail address, in lower case. A username contains no `@`, so a name is one of
/// the two.
pub(crate) async fn find_login(db: impl PgExecutor<'_>, name: &str) -> sqlx::Result<Option<Login>> {
    let row = sqlx::query!(
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at, password_hash, \
         must_change_password, EXISTS (SELECT FROM idp.totp t WHERE t.user_id = users.id) AS \"has_totp!\", \
         EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = users.id) AS \"has_passkey!\" \
         FROM idp.users WHERE username = $1 OR (strpos($1, '@') > 0 AND lower(email) = $1)",
        name
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Login {
        password_hash: row.password_hash,
        user: User {
            id: row.id,
            username: row.username,
            enabled: row.enabled,
            email: row.email,
            first_name: row.first_name,
            last_name: row.last_name,
            service_client: row.service_client,
            created_at: row.created_at,
            must_change_password: row.must_change_password,
            has_totp: row.has_totp,
            has_passkey: row.has_passkey,
        },
    }))
}

/// A user by id.
pub(crate) async fn find(db: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<User>> {
    sqlx::query_as!(
        User,
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at, \
         must_change_password, EXISTS (SELECT FROM idp.totp t WHERE t.user_id = users.id) AS \"has_totp!\", \
         EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = users.id) AS \"has_passkey!\" \
         FROM idp.users WHERE id = $1",
        id
    )
    .fetch_optional(db)
    .await
}

/// The service account of a client.
pub(crate) async fn service_account(db: impl PgExecutor<'_>, client_id: &str) -> sqlx::Result<Option<User>> {
    sqlx::query_as!(
        User,
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at, \
         must_change_password, EXISTS (SELECT FROM idp.totp t WHERE t.user_id = users.id) AS \"has_totp!\", \
         EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = users.id) AS \"has_passkey!\" \
         FROM idp.users WHERE service_client = $1",
        client_id
    )
    .fetch_optional(db)
    .await
}

/// Returns those of the usernames that exist.
pub(crate) async fn existing(conn: &mut PgConnection, usernames: &[String]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("SELECT username FROM idp.users WHERE username = ANY($1)", usernames)
        .fetch_all(conn)
        .await
}

/// Finds the enabled user who has proved a password, if it is still the current one.
pub(crate) async fn find_proved(
    db: impl PgExecutor<'_> + Copy,
    proved: Proved,
) -> sqlx::Result<Option<User>> {
    let stored = password_hash(db, proved.user).await?;
    if stored.as_deref().map(CredentialDigest::of) != Some(proved.password) {
        return Ok(None);
    }
    Ok(find(db, proved.user).await?.filter(|user| user.enabled))
}

/// Whether the proved credentials are still valid. Locks the user's row until the transaction ends, as does every
/// change of a password, a second factor or the account. Two further statements see what was committed while the first
/// waited.
pub(crate) async fn lock_proved(conn: &mut PgConnection, proof: Proof) -> sqlx::Result<bool> {
    let proved = match proof {
        Proof::Password(proved) => proved,
        Proof::Passkey { user, passkey } => {
            let is_enabled = lock_password(conn, user).await?.is_some();
            let is_present =
                is_enabled && passkeys::store::digests(&mut *conn, user).await?.contains(&passkey);
            return Ok(is_present && has_own_password(conn, user).await?);
        }
    };
    Ok(lock_factors(conn, proved).await? && has_own_password(conn, proved.user).await?)
}

/// Checks the password and the second factor alone; locks as [`lock_proved`] does.
pub(super) async fn lock_factors(conn: &mut PgConnection, proved: Proved) -> sqlx::Result<bool> {
    if !lock_password_of(conn, proved.user, proved.password).await? {
        return Ok(false);
    }
    let present = second_factors::present(conn, proved.user).await?;
    Ok(match proved.second_factor {
        None => present.is_empty(),
        Some(shown) => present.contains(&shown),
    })
}

/// Whether the user has chosen the current password.
async fn has_own_password(conn: &mut PgConnection, user: Uuid) -> sqlx::Result<bool> {
    Ok(find(conn, user).await?.is_some_and(|user| !user.must_change_password))
}

/// Whether this is the password of an enabled user. Locks the user's row until the transaction ends.
pub(crate) async fn lock_password_of(
    conn: &mut PgConnection,
    id: Uuid,
    password: CredentialDigest,
) -> sqlx::Result<bool> {
    Ok(lock_password(conn, id).await?.map(CredentialDigest::of) == Some(password))
}

/// The hash of a user's password.
pub(crate) async fn password_hash(db: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<String>> {
    let found = sqlx::query_scalar!("SELECT password_hash FROM idp.users WHERE id = $1", id);
    Ok(found.fetch_optional(db).await?.flatten())
}

/// The hash of an enabled user's password. Locks the user's row until the transaction ends.
pub(crate) async fn lock_password(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<String>> {
    let found = sqlx::query_scalar!(
        "SELECT password_hash FROM idp.users WHERE id = $1 AND enabled FOR NO KEY UPDATE",
        id
    );
    Ok(found.fetch_optional(conn).await?.flatten())
}

/// A person to add.
pub(crate) struct NewPerson<'a> {
    pub(crate) id: Uuid,
    pub(crate) username: &'a str,
    pub(crate) email: Option<&'a str>,
    pub(crate) first_name: Option<&'a str>,
    pub(crate) last_name: Option<&'a str>,
    pub(crate) password_hash: &'a str,
    /// Whether someone else knows the password.
    pub(crate) must_change_password: bool,
    pub(crate) now: OffsetDateTime,
}

/// Adds a person. Returns the salt of the names in its audit rows, or `None` if the username or e-mail address is
/// taken.
pub(crate) async fn add_person(
    conn: &mut PgConnection,
    person: &NewPerson<'_>,
) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!(
        "INSERT INTO idp.users(id, username, email, first_name, last_name, password_hash, must_change_password, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING name_salt",
        person.id,
        person.username,
        person.email,
        person.first_name,
        person.last_name,
        person.password_hash,
        person.must_change_password,
        person.now
    )
    .fetch_optional(conn)
    .await
}

/// Replaces a person's password and removes links to choose one.
pub(crate) async fn replace_password(
    conn: &mut PgConnection,
    id: Uuid,
    password_hash: &str,
    must_change: bool,
) -> sqlx::Result<bool> {
    sqlx::query!("DELETE FROM idp.links WHERE user_id = $1", id).execute(&mut *conn).await?;
    let changed = sqlx::query!(
        "UPDATE idp.users SET password_hash = $2, must_change_password = $3 \
         WHERE id = $1 AND service_client IS NULL",
        id,
        password_hash,
        must_change
    )
    .execute(conn)
    .await?;
    Ok(changed.rows_affected() == 1)
}

/// Ends a user's browser and client sessions, except the browser session `kept` and those below it.
pub(crate) async fn end_sessions(conn: &mut PgConnection, id: Uuid, kept: Option<Uuid>) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM idp.browser_sessions WHERE user_id = $1 AND id IS DISTINCT FROM $2", id, kept)
        .execute(&mut *conn)
        .await?;
    sqlx::query!(
        "DELETE FROM idp.sessions WHERE user_id = $1 AND ($2::uuid IS NULL OR browser_session_id IS DISTINCT FROM $2)",
        id,
        kept
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds a client's service account; false if it has one already.
pub(crate) async fn add_service_account(
    conn: &mut PgConnection,
    id: Uuid,
    client_id: &str,
    username: &str,
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    let added = sqlx::query!(
        "INSERT INTO idp.users(id, username, service_client, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT DO NOTHING",
        id,
        username,
        client_id,
        now
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// Enables a user, or disables it and ends its sessions. `None` if there is no such user, else whether anything
/// changed. The lock leaves the row's key to a login that holds its browser session's row and adds a client session.
pub(crate) async fn set_enabled(
    conn: &mut PgConnection,
    id: Uuid,
    enabled: bool,
) -> sqlx::Result<Option<bool>> {
    let before = sqlx::query_scalar!("SELECT enabled FROM idp.users WHERE id = $1 FOR NO KEY UPDATE", id)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(before) = before else { return Ok(None) };
    if before != enabled {
        sqlx::query!("UPDATE idp.users SET enabled = $2 WHERE id = $1", id, enabled)
            .execute(&mut *conn)
            .await?;
    }
    if !enabled {
        end_sessions(conn, id, None).await?;
    }
    Ok(Some(before != enabled))
}

/// Removes a user with its sessions and codes; false if there was none.
pub(crate) async fn remove(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<bool> {
    let removed = sqlx::query!("DELETE FROM idp.users WHERE id = $1", id).execute(conn).await?;
    Ok(removed.rows_affected() == 1)
}

/// Filter of a list of users.
#[derive(Debug, Default)]
pub(crate) struct Filter<'a> {
    pub(crate) username: Option<&'a str>,
    pub(crate) exact: bool,
    pub(crate) enabled: Option<bool>,
    /// Whether to include service accounts; Keycloak omits them if there is no other filter.
    pub(crate) service_accounts: bool,
}

/// The users whose names the head selects, ordered by username.
macro_rules! named {
    ($head:literal; $($value:expr),*) => {
        sqlx::query_as!(
            User,
            "WITH page AS MATERIALIZED (" + $head + ") \
             SELECT id, username, enabled, email, first_name, last_name, service_client, created_at, \
             must_change_password, EXISTS (SELECT FROM idp.totp t WHERE t.user_id = users.id) AS \"has_totp!\", \
             EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = users.id) AS \"has_passkey!\" \
             FROM page JOIN idp.users USING (username) ORDER BY username",
            $($value),*
        )
    };
}

/// One page of users, ordered by username. Pages of everyone and of the disabled users pass over those before them in an
/// index, because identity reads these lists to their end.
pub(crate) async fn list(
    db: impl PgExecutor<'_>,
    filter: &Filter<'_>,
    first: i64,
    max: i64,
) -> sqlx::Result<Vec<User>> {
    match (filter.username, filter.enabled, filter.service_accounts) {
        (None, None, false) => {
            named!(
                "SELECT username FROM idp.users WHERE service_client IS NULL ORDER BY username OFFSET $1 LIMIT $2";
                first,
                max
            )
            .fetch_all(db)
            .await
        }
        (None, Some(false), true) => {
            named!(
                "SELECT username FROM idp.users WHERE NOT enabled ORDER BY username OFFSET $1 LIMIT $2";
                first,
                max
            )
            .fetch_all(db)
            .await
        }
        _ => {
            named!(
                "SELECT username FROM idp.users \
                 WHERE ($1::text IS NULL OR CASE WHEN $2 THEN username = $1 ELSE strpos(username, $1) > 0 END) \
                 AND ($3::boolean IS NULL OR enabled = $3) AND ($4 OR service_client IS NULL) \
                 ORDER BY username OFFSET $5 LIMIT $6";
                filter.username,
                filter.exact,
                filter.enabled,
                filter.service_accounts,
                first,
                max
            )
            .fetch_all(db)
            .await
        }
    }
}
