//! Reads submissions and hours of some members in one week.

use std::collections::BTreeMap;

use contract::id::MemberId;
use service::{ApiError, Permit, Reads};
use uuid::Uuid;

use super::rules::MemberWeek;
use crate::entries::rules::HourSum;
use crate::submission_entries::rules::Totals;
use crate::weeks::rules::{Status, SubmissionId, Week};

/// Reads the week of each of these members of the company.
pub(super) async fn weeks(
    reads: &Reads,
    permit: &Permit,
    week: Week,
    members: &[MemberId],
) -> Result<BTreeMap<MemberId, MemberWeek>, ApiError> {
    let ids: Vec<Uuid> = members.iter().map(|id| id.as_uuid()).collect();
    // Each member's rows are found through the indexes on (company, member, week).
    let rows = sqlx::query!(
        r#"SELECT m.id AS "member!", s.id AS "submission?", s.status AS "status?",
             e.real AS "real!", e.billable AS "billable!"
           FROM unnest($3::uuid[]) AS m(id)
           LEFT JOIN timesheet.submissions s ON s.company_id = $1 AND s.member_id = m.id AND s.week_start = $2
             AND s.is_current
           CROSS JOIN LATERAL (
             SELECT coalesce(sum(real_hours) * 100, 0)::bigint AS real,
               coalesce(sum(billable_hours) * 100, 0)::bigint AS billable
             FROM timesheet.entries WHERE company_id = $1 AND member_id = m.id AND week_start = $2) e"#,
        permit.company.as_uuid(),
        week.monday(),
        &ids
    )
    .fetch_all(reads)
    .await?;
    let weeks = rows.into_iter().map(|row| {
        let status = row.status.as_deref().map(Status::of_word).transpose()?;
        let totals = Totals {
            real_hours: HourSum::of_hundredths(row.real),
            billable_hours: HourSum::of_hundredths(row.billable),
        };
        let current = row.submission.map(SubmissionId::from).zip(status);
        Ok((MemberId::from(row.member), MemberWeek { current, totals }))
    });
    weeks.collect()
}
