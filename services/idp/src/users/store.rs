//! SQL of users.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::users::rules::{Profile, User};

/// A user and the hash of the password; a service account has none.
pub(crate) struct Login {
    pub(crate) user: User,
    pub(crate) password_hash: Option<String>,
}

/// Who has this username or e-mail address (in lower case). No username holds an `@`, so a name is one of the two.
pub(crate) async fn find_login(db: impl PgExecutor<'_>, name: &str) -> sqlx::Result<Option<Login>> {
    let row = sqlx::query!(
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at, password_hash \
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
        },
    }))
}

/// A user by id.
pub(crate) async fn find(db: impl PgExecutor<'_>, id: Uuid) -> sqlx::Result<Option<User>> {
    sqlx::query_as!(
        User,
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at \
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
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at \
         FROM idp.users WHERE service_client = $1",
        client_id
    )
    .fetch_optional(db)
    .await
}

/// Which of these usernames exist.
pub(crate) async fn existing(conn: &mut PgConnection, usernames: &[String]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("SELECT username FROM idp.users WHERE username = ANY($1)", usernames)
        .fetch_all(conn)
        .await
}

/// Adds a person; false when the username is taken.
pub(crate) async fn add_person(
    conn: &mut PgConnection,
    id: Uuid,
    username: &str,
    password_hash: &str,
    now: OffsetDateTime,
) -> sqlx::Result<bool> {
    let profile = Profile::of(username);
    let added = sqlx::query!(
        "INSERT INTO idp.users(id, username, email, first_name, last_name, password_hash, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (username) DO NOTHING",
        id,
        username,
        profile.email,
        profile.first_name,
        profile.last_name,
        password_hash,
        now
    )
    .execute(conn)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// Changes a person's password and ends the person's sessions, which the old one opened; the id of who it is.
pub(crate) async fn set_password(
    conn: &mut PgConnection,
    username: &str,
    password_hash: &str,
) -> sqlx::Result<Option<Uuid>> {
    let id = sqlx::query_scalar!(
        "UPDATE idp.users SET password_hash = $2 WHERE username = $1 AND service_client IS NULL RETURNING id",
        username,
        password_hash
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(id) = id {
        sqlx::query!("DELETE FROM idp.browser_sessions WHERE user_id = $1", id).execute(&mut *conn).await?;
        sqlx::query!("DELETE FROM idp.sessions WHERE user_id = $1", id).execute(conn).await?;
    }
    Ok(id)
}

/// Adds a client's service account; false when it has one.
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

/// Enables or disables; `None` when there is no such user, else whether it changed anything.
pub(crate) async fn set_enabled(
    conn: &mut PgConnection,
    id: Uuid,
    enabled: bool,
) -> sqlx::Result<Option<bool>> {
    let before = sqlx::query_scalar!("SELECT enabled FROM idp.users WHERE id = $1 FOR UPDATE", id)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(before) = before else { return Ok(None) };
    if before != enabled {
        sqlx::query!("UPDATE idp.users SET enabled = $2 WHERE id = $1", id, enabled).execute(conn).await?;
    }
    Ok(Some(before != enabled))
}

/// Removes a user with its sessions and codes; false when there was none.
pub(crate) async fn remove(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<bool> {
    let removed = sqlx::query!("DELETE FROM idp.users WHERE id = $1", id).execute(conn).await?;
    Ok(removed.rows_affected() == 1)
}

/// What a list of users is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Filter<'a> {
    pub(crate) username: Option<&'a str>,
    pub(crate) exact: bool,
    pub(crate) enabled: Option<bool>,
    /// Without any other filter Keycloak leaves service accounts out.
    pub(crate) service_accounts: bool,
}

/// One page of users, in order of username.
pub(crate) async fn list(
    db: impl PgExecutor<'_>,
    filter: &Filter<'_>,
    first: i64,
    max: i64,
) -> sqlx::Result<Vec<User>> {
    sqlx::query_as!(
        User,
        "SELECT id, username, enabled, email, first_name, last_name, service_client, created_at \
         FROM idp.users \
         WHERE ($1::text IS NULL OR CASE WHEN $2 THEN username = $1 ELSE strpos(username, $1) > 0 END) \
         AND ($3::boolean IS NULL OR enabled = $3) AND ($4 OR service_client IS NULL) \
         ORDER BY username OFFSET $5 LIMIT $6",
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
