//! `notification.backlog_changes`, and the portions of changes to `notification.delivery_jobs`.

use contract::id::CompanyId;
use service::{ApiError, CompanyTx};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Change;

/// Most deliveries that one portion looks at.
const PORTION: i64 = 1_000;

contract::words! {
    /// The word for a change in the table.
    enum Kind {
        GiveUp = "give_up",
        Release = "release",
        MakeDue = "make_due",
    }
}

impl Change {
    /// Its columns `change` and `scope`: the channel, or the company.
    fn columns(self, company: CompanyId) -> (&'static str, Uuid) {
        let (kind, scope) = match self {
            Self::GiveUp(channel) => (Kind::GiveUp, channel.as_uuid()),
            Self::Release(channel) => (Kind::Release, channel.as_uuid()),
            Self::MakeDue => (Kind::MakeDue, company.as_uuid()),
        };
        (kind.word(), scope)
    }
}

/// How far a change has come: the delivery that was looked at last, in the order of creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    created_at: OffsetDateTime,
    id: Uuid,
}

impl Place {
    pub(super) const START: Self = Self { created_at: OffsetDateTime::UNIX_EPOCH, id: Uuid::nil() };
}

/// A portion that was made.
#[derive(Debug)]
pub(super) struct Portion {
    pub(super) changed: u64,
    /// Where the next portion begins, if there may be one.
    pub(super) next: Option<Place>,
}

struct Row {
    changed: i64,
    looked_at: i64,
    created_at: Option<OffsetDateTime>,
    id: Option<Uuid>,
}

impl Row {
    fn portion(self) -> Portion {
        let last = self.created_at.zip(self.id).map(|(created_at, id)| Place { created_at, id });
        Portion { changed: self.changed.unsigned_abs(), next: last.filter(|_| self.looked_at == PORTION) }
    }
}

/// Looks at the next pending deliveries of the company (`page`), and changes those that `$update` selects (as `j`) and no
/// worker has leased.
macro_rules! portion_of {
    ($tx:expr, $after:expr, $update:literal, $which:literal $(, $value:expr)*) => {{
        let company = $tx.company();
        sqlx::query_as!(
            Row,
            r#"WITH page AS MATERIALIZED (
                 SELECT id, channel_id, created_at FROM notification.delivery_jobs
                 WHERE company_id = $1 AND state = 'pending' AND created_at >= $2 AND (created_at, id) > ($2, $3)
                 ORDER BY created_at, id LIMIT $4
               ), changed AS (
                 UPDATE notification.delivery_jobs j SET "# + $update + r#"
                 FROM page JOIN notification.channels c ON c.id = page.channel_id
                 WHERE j.id = page.id AND j.state = 'pending' AND (j.leased_until IS NULL OR j.leased_until < now())
                   AND "# + $which + r#"
                 RETURNING 1
               ), last AS (SELECT created_at, id FROM page ORDER BY created_at DESC, id DESC LIMIT 1)
               SELECT (SELECT count(*) FROM changed) AS "changed!", (SELECT count(*) FROM page) AS "looked_at!",
                 (SELECT created_at FROM last) AS created_at, (SELECT id FROM last) AS id"#,
            company.as_uuid(),
            $after.created_at,
            $after.id,
            PORTION
            $(, $value)*
        )
        .fetch_one($tx.conn())
        .await?
    }};
}

/// Makes the portion of a change that follows `after`.
pub(super) async fn portion(tx: &mut CompanyTx, change: Change, after: Place) -> Result<Portion, ApiError> {
    let row = match change {
        Change::GiveUp(channel) => portion_of!(
            tx,
            after,
            "state = 'dead', settled_at = now(), error_class = 'channel_deleted', is_ready = false,
             lease_token = NULL, leased_until = NULL",
            "c.id = $5",
            channel.as_uuid()
        ),
        Change::Release(channel) => portion_of!(
            tx,
            after,
            "next_attempt_at = LEAST(j.next_attempt_at, now()), is_ready = true, error_class = NULL",
            "c.id = $5 AND j.error_class = 'channel_disabled'",
            channel.as_uuid()
        ),
        Change::MakeDue => portion_of!(
            tx,
            after,
            "next_attempt_at = LEAST(j.next_attempt_at, now()), is_ready = true",
            "c.disabled_reason IS NULL AND (NOT j.is_ready OR j.next_attempt_at > now())"
        ),
    };
    Ok(row.portion())
}

/// Waits for the portion of this change that a worker is making, if any.
pub(super) async fn lock(tx: &mut CompanyTx, change: Change) -> Result<(), ApiError> {
    let company = tx.company();
    let (kind, scope) = change.columns(company);
    sqlx::query!(
        "SELECT FROM notification.backlog_changes WHERE company_id = $1 AND change = $2 AND scope = $3 FOR UPDATE",
        company.as_uuid(),
        kind,
        scope
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(())
}

/// Stores that the change goes on after this place. A new request for the same change begins it again.
pub(super) async fn leave(tx: &mut CompanyTx, change: Change, next: Place) -> Result<(), ApiError> {
    let company = tx.company();
    let (kind, scope) = change.columns(company);
    sqlx::query!(
        "INSERT INTO notification.backlog_changes(company_id, change, scope, after_created_at, after_id)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (company_id, change, scope) DO UPDATE
           SET after_created_at = excluded.after_created_at, after_id = excluded.after_id,
             waits_since = clock_timestamp()",
        company.as_uuid(),
        kind,
        scope,
        next.created_at,
        next.id
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Removes a change that was made whole.
pub(super) async fn finish(tx: &mut CompanyTx, change: Change) -> Result<(), ApiError> {
    let company = tx.company();
    let (kind, scope) = change.columns(company);
    sqlx::query!(
        "DELETE FROM notification.backlog_changes WHERE company_id = $1 AND change = $2 AND scope = $3",
        company.as_uuid(),
        kind,
        scope
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Finds the change that has waited longest of those that no other process is making, and puts it at the end, so that one
/// whose portion cannot be made holds up no other.
pub(super) async fn next_in_turn(pool: &PgPool) -> Result<Option<(CompanyId, Change)>, ApiError> {
    let found = sqlx::query!(
        "UPDATE notification.backlog_changes b SET waits_since = clock_timestamp()
         FROM (SELECT company_id, change, scope FROM notification.backlog_changes
               ORDER BY waits_since LIMIT 1 FOR UPDATE SKIP LOCKED) first
         WHERE b.company_id = first.company_id AND b.change = first.change AND b.scope = first.scope
         RETURNING b.company_id, b.change, b.scope"
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = found else { return Ok(None) };
    let change = match Kind::of_word(&row.change)? {
        Kind::GiveUp => Change::GiveUp(row.scope.into()),
        Kind::Release => Change::Release(row.scope.into()),
        Kind::MakeDue => Change::MakeDue,
    };
    Ok(Some((row.company_id.into(), change)))
}

/// Locks a change and returns how far it has come; `None` when another process has it or there is nothing left of it.
pub(super) async fn take(tx: &mut CompanyTx, change: Change) -> Result<Option<Place>, ApiError> {
    let company = tx.company();
    let (kind, scope) = change.columns(company);
    let row = sqlx::query!(
        "SELECT after_created_at, after_id FROM notification.backlog_changes
         WHERE company_id = $1 AND change = $2 AND scope = $3 FOR UPDATE SKIP LOCKED",
        company.as_uuid(),
        kind,
        scope
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|row| Place { created_at: row.after_created_at, id: row.after_id }))
}
