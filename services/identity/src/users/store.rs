//! Reads of `identity.users` and `identity.provider_look`.

use contract::Subject;
use sqlx::{PgExecutor, PgPool};

use super::rules::{DisplayEntry, SubjectState, User};

/// The record of a subject.
pub(crate) async fn find(db: impl PgExecutor<'_>, subject: &Subject) -> sqlx::Result<Option<User>> {
    let row = sqlx::query!(
        "SELECT kc_sub, kind, email, display_name, preferred_username, idp_enabled, lifecycle, account_removal,
                first_seen_at, last_seen_at
           FROM identity.users WHERE kc_sub = $1",
        subject.as_str()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| User {
        kc_sub: row.kc_sub,
        kind: row.kind,
        email: row.email,
        display_name: row.display_name,
        preferred_username: row.preferred_username,
        idp_enabled: row.idp_enabled,
        lifecycle: row.lifecycle,
        account_removal: row.account_removal,
        first_seen_at: row.first_seen_at.into(),
        last_seen_at: row.last_seen_at.into(),
    }))
}

/// The state of a subject, with the time of the last look at the provider; `None` if there was no look in the last
/// `max_age_seconds`, by the database's clock.
pub(crate) async fn state(
    pool: &PgPool,
    subject: &Subject,
    max_age_seconds: f64,
) -> sqlx::Result<Option<SubjectState>> {
    let row = sqlx::query!(
        r#"SELECT l.at, u.idp_enabled AS "idp_enabled?", u.lifecycle AS "lifecycle?"
             FROM identity.provider_look l LEFT JOIN identity.users u ON u.kc_sub = $1
            WHERE l.at BETWEEN now() - make_interval(secs => $2) AND now() + interval '1 s'"#,
        subject.as_str(),
        max_age_seconds,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| SubjectState {
        exists: row.lifecycle.is_some(),
        idp_enabled: row.idp_enabled.unwrap_or(false),
        lifecycle: row.lifecycle,
        checked_at: row.at.into(),
    }))
}

/// Display data of the subjects that have a record, ordered by subject.
pub(crate) async fn display(pool: &PgPool, subjects: &[Subject]) -> sqlx::Result<Vec<DisplayEntry>> {
    let subjects: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    sqlx::query_as!(
        DisplayEntry,
        r#"SELECT kc_sub, display_name, email FROM identity.users WHERE kc_sub = ANY($1)
            ORDER BY kc_sub COLLATE "C""#,
        &subjects
    )
    .fetch_all(pool)
    .await
}
