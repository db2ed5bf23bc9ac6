//! Sums over `timesheet.entries`.

use service::{ApiError, Permit};
use sqlx::PgPool;

use super::rules::{Asked, ShownProject, SumRow};
use crate::entries::rules::HourSum;
use crate::projects::rules::ProjectId;
use crate::submission_entries::rules::Totals;
use crate::weeks::rules::Day;

/// Some rows of a report, with the size and the sums of the whole.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<SumRow>,
    pub(super) total: i64,
    pub(super) totals: Totals,
}

/// Rows of a report, by member, project code and day.
pub(super) async fn sums(
    pool: &PgPool,
    permit: &Permit,
    asked: &Asked,
    limit: i64,
    offset: i64,
) -> Result<Found, ApiError> {
    let statuses: Option<Vec<String>> =
        asked.statuses.as_ref().map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    // An entry of a week without a submission is a draft.
    let rows = sqlx::query!(
        r#"WITH sums AS (
             SELECT CASE WHEN $4 THEN e.member_id END AS member_id, CASE WHEN $5 THEN e.project_id END AS project_id,
               CASE WHEN $6 THEN e.entry_date END AS day,
               (sum(e.real_hours) * 100)::bigint AS real, (sum(e.billable_hours) * 100)::bigint AS billable
             FROM timesheet.entries e
             LEFT JOIN timesheet.submissions s ON $7::text[] IS NOT NULL AND s.company_id = e.company_id
               AND s.member_id = e.member_id AND s.week_start = e.week_start AND s.is_current
             WHERE e.company_id = $1 AND e.entry_date BETWEEN $2 AND $3 AND ($7::text[] IS NULL
               OR CASE WHEN s.status IS NULL OR s.status = 'reverted' THEN 'draft' ELSE s.status END = ANY($7))
             GROUP BY 1, 2, 3)
           SELECT r.member_id, r.project_id, p.code AS "code?", p.name AS "name?", r.day,
             r.real AS "real!", r.billable AS "billable!", count(*) OVER () AS "total!",
             (sum(r.real) OVER ())::bigint AS "all_real!", (sum(r.billable) OVER ())::bigint AS "all_billable!"
           FROM sums r LEFT JOIN timesheet.projects p ON p.company_id = $1 AND p.id = r.project_id
           ORDER BY r.member_id, p.code COLLATE "C", r.day LIMIT $8 OFFSET $9"#,
        permit.company.as_uuid(),
        asked.from.date(),
        asked.to.date(),
        asked.by.member,
        asked.by.project,
        asked.by.day,
        statuses.as_deref(),
        limit,
        offset
    )
    .fetch_all(pool)
    .await?;
    let Some(first) = rows.first() else { return Ok(Found::default()) };
    let (total, totals) = (first.total, totals(first.all_real, first.all_billable));
    let rows = rows.into_iter().map(|row| SumRow {
        member: row.member_id.map(Into::into),
        project: row.project_id.map(|id| ShownProject {
            id: ProjectId::from(id),
            code: row.code.unwrap_or_default(),
            name: row.name.unwrap_or_default(),
        }),
        day: row.day.map(Day::from),
        hours: self::totals(row.real, row.billable),
    });
    Ok(Found { rows: rows.collect(), total, totals })
}

fn totals(real: i64, billable: i64) -> Totals {
    Totals { real_hours: HourSum::of_hundredths(real), billable_hours: HourSum::of_hundredths(billable) }
}
