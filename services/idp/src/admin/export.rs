//! `GET /admin/realms/{realm}/users/{id}/export`, for operators: everything that the provider holds about a subject, but
//! secrets and their digests.

use axum::Json;
use axum::extract::{RawQuery, State};
use serde_json::{Map, Value, json};
use service::PathParams;
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use super::caller::Asker;
use super::http::user_id;
use crate::form::Params;
use crate::refusal::AdminError;
use crate::state::App;
use crate::users;

/// Audit rows of one answer; the next ones are asked for by `auditAfter`.
const AUDIT_ROWS: i64 = 1_000;

/// Each table that knows subjects: its name in the answer, and its rows of the subject `$1` as JSON without secrets. A test
/// finds a table that is missing here.
const TABLES: [(&str, &str); 8] = [
    ("account", "SELECT to_jsonb(t) - 'password_hash' - 'name_salt' FROM idp.users t WHERE id = $1"),
    ("secondFactors", "SELECT to_jsonb(t) - 'secret' FROM idp.totp t WHERE user_id = $1"),
    ("recoveryCodes", "SELECT to_jsonb(t) - 'code_tag' FROM idp.recovery_codes t WHERE user_id = $1"),
    (
        "browserSessions",
        "SELECT to_jsonb(t) - 'cookie_hash' FROM idp.browser_sessions t WHERE user_id = $1 ORDER BY authenticated_at, id",
    ),
    (
        "sessions",
        "SELECT to_jsonb(t) - 'refresh_hash' - 'replaced_hash' FROM idp.sessions t WHERE user_id = $1 \
         ORDER BY authenticated_at, id",
    ),
    (
        "codes",
        "SELECT to_jsonb(t) - 'code_hash' - 'nonce' - 'code_challenge' FROM idp.codes t \
         JOIN idp.sessions s ON s.id = t.session_id WHERE s.user_id = $1 ORDER BY t.expires_at",
    ),
    (
        "failedLogins",
        "SELECT to_jsonb(t) FROM idp.failed_logins t WHERE subject = 'user:' || $1 ORDER BY minute, address",
    ),
    (
        "adminEvents",
        "SELECT to_jsonb(t) FROM idp.admin_events t WHERE resource_path = 'users/' || $1 OR user_id = $1::text \
         ORDER BY occurred_at, id",
    ),
];
/// Audit rows by the subject, about the subject, or about one of its sessions.
const AUDIT: &str = "SELECT to_jsonb(t) FROM audit.idp__events t WHERE seq > $2 \
                     AND (actor = $1::text OR subject = 'user:' || $1 OR payload->>'userId' = $1::text) \
                     ORDER BY seq LIMIT $3";

/// What is held about a subject.
pub(crate) async fn export(
    State(app): State<App>,
    asker: Asker,
    path: PathParams,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, AdminError> {
    asker.operator()?;
    let id = user_id(&path)?;
    let params = Params::of_query(query.as_deref())?;
    let after = params.get("auditAfter").unwrap_or("0").parse::<i64>().ok().filter(|after| *after >= 0);
    let after = after.ok_or_else(|| AdminError::bad("auditAfter must be a whole number, 0 or more"))?;
    users::store::find(&app.core.pool, id).await?.ok_or_else(AdminError::user_not_found)?;
    // One moment of all tables.
    let mut tx = app.core.pool.begin().await?;
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").execute(&mut *tx).await?;
    let mut held = Map::new();
    for (name, sql) in TABLES {
        held.insert(name.to_owned(), rows(&mut tx, sql, id).await?);
    }
    let audit: Vec<Value> =
        sqlx::query_scalar(AUDIT).bind(id).bind(after).bind(AUDIT_ROWS).fetch_all(&mut *tx).await?;
    tx.rollback().await?;
    let is_whole = i64::try_from(audit.len()).is_ok_and(|rows| rows < AUDIT_ROWS);
    let next = if is_whole {
        Value::Null
    } else {
        audit.last().and_then(|row| row.get("seq")).cloned().unwrap_or_default()
    };
    held.insert("audit".to_owned(), json!(audit));
    held.insert("auditNext".to_owned(), next);
    Ok(Json(Value::Object(held)))
}

async fn rows(conn: &mut PgConnection, sql: &'static str, id: Uuid) -> sqlx::Result<Value> {
    let rows: Vec<Value> = sqlx::query_scalar(AssertSqlSafe(sql)).bind(id).fetch_all(conn).await?;
    Ok(Value::Array(rows))
}
