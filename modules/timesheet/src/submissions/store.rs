//! `timesheet.submissions` and the entries of each version. A version is added under the lock of the member's week.

use contract::id::{CompanyId, MemberId};
use serde_json::Value;
use service::db::on_constraint;
use service::{ApiError, CompanyTx, Permit};
use sqlx::PgPool;
use time::Date;
use uuid::Uuid;

use super::counts;
use super::rules::{Move, Submission};
use crate::weeks::rules::{Status, SubmissionId, Week};
use service::refusal::conflict;

pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) member_id: Uuid,
    pub(super) week_start: Date,
    pub(super) version_number: i32,
    pub(super) root_id: Uuid,
    pub(super) supersedes_id: Option<Uuid>,
    pub(super) is_current: bool,
    pub(super) status: String,
    pub(super) assigned_approver_member_id: Option<Uuid>,
    pub(super) reject_reason: Option<String>,
    pub(super) submitted_by: String,
    pub(super) total: i64,
}

impl Row {
    pub(super) fn submission(self, company: CompanyId) -> Result<Submission, ApiError> {
        Ok(Submission {
            id: self.id.into(),
            company_id: company,
            member_id: self.member_id.into(),
            week_start: Week::from(self.week_start),
            version_number: self.version_number,
            root_id: self.root_id.into(),
            supersedes_id: self.supersedes_id.map(SubmissionId::from),
            is_current: self.is_current,
            status: Status::of_word(&self.status)?,
            assigned_approver_member_id: self.assigned_approver_member_id.map(MemberId::from),
            reject_reason: self.reject_reason,
            submitted_by: self.submitted_by,
        })
    }
}

/// Finds a submission of the company.
pub(crate) async fn find(
    pool: &PgPool,
    permit: &Permit,
    id: SubmissionId,
) -> Result<Option<Submission>, ApiError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT id, member_id, week_start, version_number, root_id, supersedes_id, is_current, status,
             assigned_approver_member_id, reject_reason, submitted_by, 1::bigint AS "total!"
           FROM timesheet.submissions WHERE company_id = $1 AND id = $2"#,
        permit.company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| row.submission(permit.company)).transpose()
}

/// Moves a current submission if its status is still the one that was checked; returns `None` when it is not, or when
/// the caller acted as the assigned approver and no longer is.
pub(super) async fn settle(
    tx: &mut CompanyTx,
    before: &Submission,
    step: &Move,
    by_assignment: Option<MemberId>,
) -> Result<Option<Submission>, ApiError> {
    let (to, reason) = match step {
        Move::Approve => (Status::Approved, None),
        Move::Reject(reason) => (Status::Rejected, Some(reason.as_str())),
        Move::Revert => (Status::Reverted, None),
    };
    let row = sqlx::query_as!(
        Row,
        r#"UPDATE timesheet.submissions
           SET status = $4, reject_reason = $5, decided_by = $6, decided_at = now()
           WHERE company_id = $1 AND id = $2 AND is_current AND status = $3
             AND ($7::uuid IS NULL OR assigned_approver_member_id = $7)
           RETURNING id, member_id, week_start, version_number, root_id, supersedes_id, is_current, status,
             assigned_approver_member_id, reject_reason, submitted_by, 1::bigint AS "total!""#,
        tx.company().as_uuid(),
        before.id.as_uuid(),
        before.status.word(),
        to.word(),
        reason,
        tx.actor(),
        by_assignment.map(MemberId::as_uuid)
    )
    .fetch_optional(tx.conn())
    .await?;
    row.map(|row| row.submission(tx.company())).transpose()
}

/// Adds a version of a locked week, which supersedes the previous one, and copies the week's entries.
pub(super) async fn add(tx: &mut CompanyTx, made: &Submission) -> Result<(), ApiError> {
    if let Some(before) = made.supersedes_id {
        step_back(tx, before).await?;
    }
    sqlx::query!(
        "INSERT INTO timesheet.submissions(id, company_id, member_id, week_start, version_number, root_id,
           supersedes_id, is_current, status, assigned_approver_member_id, submitted_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, true, 'submitted', $8, $9)",
        made.id.as_uuid(),
        tx.company().as_uuid(),
        made.member_id.as_uuid(),
        made.week_start.monday(),
        made.version_number,
        made.root_id.as_uuid(),
        made.supersedes_id.map(SubmissionId::as_uuid),
        made.assigned_approver_member_id.map(MemberId::as_uuid),
        made.submitted_by
    )
    .execute(tx.conn())
    .await
    .map_err(|error| on_constraint(error, "submissions_one_current", pending))?;
    sqlx::query!(
        "INSERT INTO timesheet.submission_entries(submission_id, project_id, entry_date, real_hours, billable_hours,
           note)
         SELECT $1, project_id, entry_date, real_hours, billable_hours, note FROM timesheet.entries
         WHERE company_id = $2 AND member_id = $3 AND week_start = $4",
        made.id.as_uuid(),
        tx.company().as_uuid(),
        made.member_id.as_uuid(),
        made.week_start.monday()
    )
    .execute(tx.conn())
    .await?;
    counts::add(tx, made.assigned_approver_member_id, made.week_start.monday()).await
}

/// Marks the previous version as no longer current.
async fn step_back(tx: &mut CompanyTx, before: SubmissionId) -> Result<(), ApiError> {
    let done = sqlx::query!(
        "UPDATE timesheet.submissions SET is_current = false
         WHERE company_id = $1 AND id = $2 AND is_current AND status IN ('rejected', 'reverted')",
        tx.company().as_uuid(),
        before.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(pending()) }
}

/// 409 `SUBMISSION_PENDING`. The week's lock already lets only one submit; the table's constraints are a backstop.
fn pending() -> ApiError {
    conflict("SUBMISSION_PENDING", "the week waits for a decision", Value::Null)
}
