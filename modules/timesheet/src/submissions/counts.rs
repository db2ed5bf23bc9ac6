//! `timesheet.submission_counts`: how many submissions name an approver, or nobody (the nil id). Changed last in a
//! transaction, so that its row is held shortly; more than one at once in the order of ids, so that none waits for
//! another in a circle.

use std::collections::BTreeMap;

use contract::id::MemberId;
use service::{ApiError, AuditedTx, Permit};
use uuid::Uuid;

/// One more submission names this approver.
pub(super) async fn add(
    tx: &mut AuditedTx,
    permit: &Permit,
    approver: Option<MemberId>,
) -> Result<(), ApiError> {
    change(tx, permit, approver.map_or(Uuid::nil(), MemberId::as_uuid), 1).await
}

/// Submissions that named these approvers name another one.
pub(crate) async fn shift(
    tx: &mut AuditedTx,
    permit: &Permit,
    from: &[Option<MemberId>],
    to: MemberId,
) -> Result<(), ApiError> {
    let mut changes: BTreeMap<Uuid, i64> = BTreeMap::new();
    for approver in from {
        *changes.entry(approver.map_or(Uuid::nil(), MemberId::as_uuid)).or_default() -= 1;
        *changes.entry(to.as_uuid()).or_default() += 1;
    }
    for (approver, by) in changes {
        change(tx, permit, approver, by).await?;
    }
    Ok(())
}

async fn change(tx: &mut AuditedTx, permit: &Permit, approver: Uuid, by: i64) -> Result<(), ApiError> {
    // The row of a submission that is there was made with it, so only one more can find none.
    sqlx::query!(
        "INSERT INTO timesheet.submission_counts AS c(company_id, approver_member_id, submissions)
         VALUES ($1, $2, greatest($3::bigint, 0))
         ON CONFLICT (company_id, approver_member_id) DO UPDATE SET submissions = c.submissions + $3",
        permit.company.as_uuid(),
        approver,
        by
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
