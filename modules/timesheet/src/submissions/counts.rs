//! `timesheet.submission_weeks`: the number of submissions per week, by approver, without an approver, and in total.
//! Counts are changed last in a transaction, so that their rows are locked only briefly; several are changed in the
//! order of ids and weeks, so that transactions cannot deadlock.

use std::collections::BTreeMap;

use contract::id::MemberId;
use service::{ApiError, CompanyTx};
use time::Date;
use uuid::Uuid;

/// The key for submissions without an approver.
pub(super) const NOBODY: Uuid = Uuid::nil();
/// The key for all submissions.
pub(super) const ANYBODY: Uuid = Uuid::max();

/// Counts a new submission of this week and approver.
pub(super) async fn add(tx: &mut CompanyTx, approver: Option<MemberId>, week: Date) -> Result<(), ApiError> {
    change(tx, approver.map_or(NOBODY, MemberId::as_uuid), week, 1).await?;
    change(tx, ANYBODY, week, 1).await
}

/// Moves the counts of these submissions to another approver.
pub(crate) async fn shift(
    tx: &mut CompanyTx,
    from: &[(Option<MemberId>, Date)],
    to: MemberId,
) -> Result<(), ApiError> {
    let mut changes: BTreeMap<(Uuid, Date), i64> = BTreeMap::new();
    for (approver, week) in from {
        *changes.entry((approver.map_or(NOBODY, MemberId::as_uuid), *week)).or_default() -= 1;
        *changes.entry((to.as_uuid(), *week)).or_default() += 1;
    }
    for ((approver, week), by) in changes {
        change(tx, approver, week, by).await?;
    }
    Ok(())
}

async fn change(tx: &mut CompanyTx, approver: Uuid, week: Date, by: i64) -> Result<(), ApiError> {
    // A count goes down only for a submission whose row was created with it, so only an increase can find no row.
    sqlx::query!(
        "INSERT INTO timesheet.submission_weeks AS c(company_id, approver_member_id, week_start, submissions)
         VALUES ($1, $2, $3, greatest($4::bigint, 0))
         ON CONFLICT (company_id, approver_member_id, week_start) DO UPDATE SET submissions = c.submissions + $4",
        tx.company().as_uuid(),
        approver,
        week,
        by
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
