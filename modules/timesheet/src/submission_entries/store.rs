//! `timesheet.submission_entries`.

use contract::Day;
use service::{ApiError, Permit, Reads};

use super::rules::HeldEntry;
use crate::entries::rules::Hours;
use crate::weeks::rules::SubmissionId;

/// Lists the entries of a submission of the company, by day and project code.
pub(super) async fn list(
    reads: &Reads,
    permit: &Permit,
    submission: SubmissionId,
) -> Result<Vec<HeldEntry>, ApiError> {
    let rows = sqlx::query!(
        r#"SELECT e.project_id, p.code, e.entry_date, (e.real_hours * 100)::int AS "real!",
             (e.billable_hours * 100)::int AS "billable!", e.note
           FROM timesheet.submission_entries e
           JOIN timesheet.submissions s ON s.id = e.submission_id
           JOIN timesheet.projects p ON p.company_id = s.company_id AND p.id = e.project_id
           WHERE s.company_id = $1 AND s.id = $2
           ORDER BY e.entry_date, p.code COLLATE "C", p.id"#,
        permit.company.as_uuid(),
        submission.as_uuid()
    )
    .fetch_all(reads)
    .await?;
    let entries = rows.into_iter().map(|row| HeldEntry {
        project_id: row.project_id.into(),
        project_code: row.code,
        entry_date: Day::from(row.entry_date),
        real_hours: Hours::of_hundredths(row.real),
        billable_hours: Hours::of_hundredths(row.billable),
        note: row.note,
    });
    Ok(entries.collect())
}
