//! `timesheet.submission_weeks`: how many submissions of a week name an approver or nobody, and how many there are at
//! all. Changed last in a transaction, so that its rows are held shortly; more than one at once in the order of ids and
//! weeks, so that none waits for another in a circle.

use std::collections::BTreeMap;

use contract::id::MemberId;
use service::{ApiError, CompanyTx};
use time::Date;
use uuid::Uuid;

/// Stands for submissions that name nobody.
pub(super) const NOBODY: Uuid = Uuid::nil();
/// Stands for all submissions, whomever they name.
pub(super) const ANYBODY: Uuid = Uuid::max();

/// One more submission of this week names this approver.
pub(super) async fn add(tx: &mut CompanyTx, approver: Option<MemberId>, week: Date) -> Result<(), ApiError> {
    change(tx, approver.map_or(NOBODY, MemberId::as_uuid), week, 1).await?;
    change(tx, ANYBODY, week, 1).await
}

/// Submissions of these weeks that named these approvers name another one.
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
    // The row of a submission that is there was made with it, so only one more can find none.
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
