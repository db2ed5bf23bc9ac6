//! The lifecycle columns of `identity.users`, and the check for the last superadmin.

use contract::Subject;
use sqlx::PgConnection;

use super::rules::Lifecycle;

/// Whether this subject is the last superadmin who can act. Locks the guard row until the transaction ends, as revoking
/// the role does; call it before locking any row of this schema. Uses two statements, so that the second sees what was
/// committed while the first waited.
pub(super) async fn is_last_superadmin(conn: &mut PgConnection, subject: &Subject) -> sqlx::Result<bool> {
    let holders =
        sqlx::query_scalar!(r#"SELECT holder AS "holder!" FROM authz.superadmin_guard() AS holder"#)
            .fetch_all(&mut *conn)
            .await?;
    if !holders.iter().any(|holder| holder == subject.as_str()) {
        return Ok(false);
    }
    let another = sqlx::query_scalar!(
        r#"SELECT EXISTS(SELECT FROM identity.users
            WHERE kc_sub = ANY($1) AND kc_sub <> $2 AND lifecycle = 'active' AND idp_enabled) AS "another!""#,
        &holders,
        subject.as_str(),
    )
    .fetch_one(conn)
    .await?;
    Ok(!another)
}

/// Reads the subject's state and locks its row until the transaction ends.
pub(super) async fn lock(conn: &mut PgConnection, subject: &Subject) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("SELECT lifecycle FROM identity.users WHERE kc_sub = $1 FOR UPDATE", subject.as_str())
        .fetch_optional(conn)
        .await
}

/// Marks the account of a closed subject for removal if that has not been requested before. Returns false if it has,
/// and for service accounts, which are removed with their clients.
pub(super) async fn request_removal(conn: &mut PgConnection, subject: &Subject) -> sqlx::Result<bool> {
    let asked = sqlx::query!(
        "UPDATE identity.users SET account_removal = 'due'
          WHERE kc_sub = $1 AND lifecycle = 'closed' AND kind = 'user' AND account_removal IS NULL",
        subject.as_str()
    )
    .execute(conn)
    .await?;
    Ok(asked.rows_affected() == 1)
}

/// Stores the new state. Closing erases the display data and the salt of the names in audit rows, and marks a person's
/// account for removal at the provider.
pub(super) async fn update(
    conn: &mut PgConnection,
    subject: &Subject,
    state: Lifecycle,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE identity.users SET lifecycle = $2, lifecycle_reason = $3,
                email = CASE WHEN $2 <> 'closed' THEN email END,
                display_name = CASE WHEN $2 <> 'closed' THEN display_name END,
                preferred_username = CASE WHEN $2 <> 'closed' THEN preferred_username END,
                name_salt = CASE WHEN $2 <> 'closed' THEN name_salt END,
                account_removal = CASE WHEN $2 = 'closed' AND kind = 'user' THEN 'due' END
          WHERE kc_sub = $1",
        subject.as_str(),
        state.as_str(),
        reason,
    )
    .execute(conn)
    .await?;
    Ok(())
}
