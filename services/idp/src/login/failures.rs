//! Audits failed logins: one row for each account, address (for IPv6 its site) and minute, with a count, so that guessing
//! does not fill the audit table. They are counted in a table of their own first, so that a crash does not lose them.

use std::time::Duration;

use contract::Timestamp;
use serde_json::json;
use service::workers::{Next, Pace};
use service::{ApiError, AuditEvent};
use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::state::App;

/// Pause between steps.
const EVERY: Duration = Duration::from_secs(20);
/// A minute is written only this long after its end, so that late counts are included.
const SETTLED: time::Duration = time::Duration::seconds(10);
/// Most rows that a step writes, so that it never holds locks for long.
const BATCH: usize = 1_000;
/// Subject of failures with a name that no account has.
const UNKNOWN: &str = "user:unknown";

/// A failed login.
pub(crate) struct FailedLogin<'a> {
    pub(crate) user: Option<Uuid>,
    /// An IPv4 address or an IPv6 site; empty for a caller on the provider's own port.
    pub(crate) address: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) reason: &'static str,
}

/// Counts a failed login.
pub(crate) async fn count(
    db: impl PgExecutor<'_>,
    failed: &FailedLogin<'_>,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    let subject = failed.user.map_or_else(|| UNKNOWN.to_owned(), |id| format!("user:{id}"));
    sqlx::query!(
        "INSERT INTO idp.failed_logins AS f (minute, subject, address, client_id, reasons, attempts) \
         VALUES (date_trunc('minute', $1::timestamptz), $2, $3, $4, jsonb_build_object($5::text, 1), 1) \
         ON CONFLICT (minute, subject, address) DO UPDATE SET attempts = f.attempts + 1, \
         reasons = f.reasons || jsonb_build_object($5::text, COALESCE((f.reasons->>$5)::integer, 0) + 1)",
        now,
        subject,
        failed.address,
        failed.client_id,
        failed.reason
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Writes audit rows until the service stops.
pub(crate) fn start(app: &App) {
    let aside = app.for_workers();
    app.core.workers.every("failed_logins", Pace::every(EVERY).after(EVERY), move || {
        let app = aside.clone();
        async move {
            let is_full = step(&app).await? == BATCH;
            Ok::<_, ApiError>(if is_full { Next::In(Duration::ZERO) } else { Next::Interval })
        }
    });
}

/// Writes the audit rows of past minutes; returns how many.
///
/// # Errors
/// The database cannot answer.
pub async fn step(app: &App) -> Result<usize, ApiError> {
    let mut tx = app.core.begin_as("system:login", None).await?;
    let over = take_over(tx.conn(), app.core.clock.now().saturating_sub(SETTLED)).await?;
    if over.is_empty() {
        tx.unchanged().await?;
        return Ok(0);
    }
    for counted in &over {
        let payload = json!({
            "minute": Timestamp::from(counted.minute),
            "address": counted.address,
            "clientId": counted.client_id,
            "count": counted.attempts,
            "reasons": counted.reasons,
        });
        let subject = counted.subject.clone();
        tx.record(&AuditEvent { company: None, action: "login.failed", subject, payload }).await?;
    }
    tx.commit_recorded().await?;
    Ok(over.len())
}

struct Counted {
    minute: OffsetDateTime,
    subject: String,
    address: String,
    client_id: String,
    reasons: serde_json::Value,
    attempts: i32,
}

/// Removes and returns at most [`BATCH`] counts of past minutes.
async fn take_over(conn: &mut PgConnection, now: OffsetDateTime) -> sqlx::Result<Vec<Counted>> {
    sqlx::query_as!(
        Counted,
        "DELETE FROM idp.failed_logins WHERE (minute, subject, address) IN \
         (SELECT minute, subject, address FROM idp.failed_logins WHERE minute < date_trunc('minute', $1::timestamptz) \
          ORDER BY minute, subject, address LIMIT $2 FOR UPDATE SKIP LOCKED) \
         RETURNING minute, subject, address, client_id, reasons, attempts",
        now,
        i64::try_from(BATCH).unwrap_or(i64::MAX)
    )
    .fetch_all(conn)
    .await
}
