//! `timesheet.member_weeks`, the lock of a member's week, and the week's current submission. Writers of hours or
//! submissions take the lock before they read, so an entry is either part of a submission or refused.

use contract::id::MemberId;
use service::{ApiError, CompanyTx};

use super::rules::{Current, Status, Week};

/// Locks the week until the transaction ends.
pub(crate) async fn lock(tx: &mut CompanyTx, member: MemberId, week: Week) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO timesheet.member_weeks(company_id, member_id, week_start) VALUES ($1, $2, $3)
         ON CONFLICT DO NOTHING",
        tx.company().as_uuid(),
        member.as_uuid(),
        week.monday()
    )
    .execute(tx.conn())
    .await?;
    sqlx::query!(
        "SELECT week_start FROM timesheet.member_weeks
         WHERE company_id = $1 AND member_id = $2 AND week_start = $3 FOR UPDATE",
        tx.company().as_uuid(),
        member.as_uuid(),
        week.monday()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(())
}

/// Reads the current submission of a week that [`lock`] holds.
pub(crate) async fn current(
    tx: &mut CompanyTx,
    member: MemberId,
    week: Week,
) -> Result<Option<Current>, ApiError> {
    let row = sqlx::query!(
        "SELECT id, status, version_number, root_id FROM timesheet.submissions
         WHERE company_id = $1 AND member_id = $2 AND week_start = $3 AND is_current",
        tx.company().as_uuid(),
        member.as_uuid(),
        week.monday()
    )
    .fetch_optional(tx.conn())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let status = Status::of_word(&row.status)?;
    Ok(Some(Current { id: row.id.into(), status, version: row.version_number, root: row.root_id.into() }))
}
