//! The rows that a look reads and writes.

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::findings::{Change, Findings, Known};
use crate::provision::rules::AccountState;

/// The stored time of the last complete look.
pub(super) async fn last(pool: &PgPool) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!("SELECT at FROM identity.provider_look").fetch_optional(pool).await
}

/// As [`last`], locked until the transaction ends.
pub(super) async fn hold_last(conn: &mut PgConnection) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!("SELECT at FROM identity.provider_look FOR UPDATE").fetch_optional(conn).await
}

/// Whether there is any record.
pub(super) async fn any(pool: &PgPool) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"SELECT EXISTS(SELECT FROM identity.users) AS "any!""#).fetch_one(pool).await
}

/// At most `limit` subjects after `subject`, in order.
pub(super) async fn known_after(pool: &PgPool, subject: &str, limit: i64) -> sqlx::Result<Vec<Known>> {
    let rows = sqlx::query!(
        r#"SELECT kc_sub, kind = 'service' AS "is_service!", idp_enabled, idp_gone_at IS NOT NULL AS "gone!"
             FROM identity.users WHERE kc_sub > $1 ORDER BY kc_sub LIMIT $2"#,
        subject,
        limit,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Known {
            subject: row.kc_sub,
            is_service: row.is_service,
            state: AccountState::stored(row.idp_enabled, row.gone),
        })
        .collect())
}

/// The subjects that the list of disabled accounts cannot settle: those recorded as disabled, and service accounts.
pub(super) async fn watched(pool: &PgPool) -> sqlx::Result<Vec<Watched>> {
    sqlx::query_as!(
        Watched,
        r#"SELECT kc_sub AS "subject!", kind = 'service' AS "is_service!", NOT idp_enabled AS "is_disabled!"
             FROM identity.users WHERE NOT idp_enabled AND idp_gone_at IS NULL
            UNION SELECT kc_sub, true, NOT idp_enabled FROM identity.users WHERE kind = 'service' AND idp_gone_at IS NULL"#
    )
    .fetch_all(pool)
    .await
}

/// A subject that the list of disabled accounts cannot settle.
pub(super) struct Watched {
    pub(super) subject: String,
    pub(super) is_service: bool,
    pub(super) is_disabled: bool,
}

/// Stores the findings that differ and returns the changes. Does not enable a record that another call checked after
/// this look began: the look may have seen the account before it was disabled.
pub(super) async fn apply(
    conn: &mut PgConnection,
    findings: &Findings,
    age_seconds: f64,
) -> sqlx::Result<Vec<Change>> {
    let (subjects, enabled, gone) = findings.columns();
    let rows = sqlx::query!(
        r#"WITH held AS (
             SELECT u.kc_sub, u.idp_enabled, u.idp_gone_at IS NOT NULL AS gone, f.enabled AS now_enabled, f.gone AS now_gone
               FROM identity.users u
               JOIN unnest($1::text[], $2::bool[], $3::bool[]) AS f(kc_sub, enabled, gone) ON f.kc_sub = u.kc_sub
              WHERE (u.idp_enabled, u.idp_gone_at IS NOT NULL) IS DISTINCT FROM (f.enabled, f.gone)
                AND NOT (f.enabled AND coalesce(u.idp_checked_at, '-infinity') > now() - make_interval(secs => $4))
              ORDER BY u.kc_sub FOR UPDATE OF u)
           UPDATE identity.users u
              SET idp_enabled = h.now_enabled, idp_gone_at = CASE WHEN h.now_gone THEN now() END, idp_checked_at = now()
             FROM held h WHERE u.kc_sub = h.kc_sub
           RETURNING u.kc_sub AS subject, h.idp_enabled AS was_enabled, h.gone AS "was_gone!",
                     h.now_enabled AS "is_enabled!", h.now_gone AS "is_gone!""#,
        &subjects,
        &enabled,
        &gone,
        age_seconds,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Change {
            subject: row.subject,
            before: AccountState::stored(row.was_enabled, row.was_gone),
            after: AccountState::stored(row.is_enabled, row.is_gone),
        })
        .collect())
}

/// Stores the time of a complete look: its start, because its first findings are that old. Replaces a stored time in
/// the future, which the database's clock left behind when it went back.
pub(super) async fn stamp(conn: &mut PgConnection, age_seconds: f64) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO identity.provider_look(at) VALUES (now() - make_interval(secs => $1))
             ON CONFLICT (one) DO UPDATE SET at = CASE WHEN provider_look.at BETWEEN excluded.at AND now() THEN provider_look.at ELSE excluded.at END",
        age_seconds
    )
    .execute(conn)
    .await?;
    Ok(())
}
