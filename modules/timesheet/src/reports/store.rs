//! Sums over `timesheet.entries`.

use contract::Day;
use service::{ApiError, Permit, transaction};
use sqlx::PgPool;
use time::Date;
use uuid::Uuid;

use super::rules::{Asked, ShownProject, SumRow};
use crate::entries::rules::HourSum;
use crate::projects::rules::ProjectId;
use crate::submission_entries::rules::Totals;

/// Some rows of a report, with the number of rows and the sums of the whole report.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<SumRow>,
    pub(super) total: i64,
    pub(super) totals: Totals,
}

/// One row of the query.
struct Row {
    member_id: Option<Uuid>,
    project_id: Option<Uuid>,
    code: Option<String>,
    name: Option<String>,
    day: Option<Date>,
    real: i64,
    billable: i64,
    total: i64,
    all_real: i64,
    all_billable: i64,
}

/// Sums the entries that `$which` describes, with one statement for a status filter and one without, so that
/// submissions are read only when needed, whichever plan is cached. `$1` is the company, `$2` to `$6` are the
/// parameters, `$7` and `$8` are the page.
macro_rules! sums_of {
    ($connection:expr, $permit:expr, $asked:expr, $limit:expr, $offset:expr, $which:literal $(, $value:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"WITH sums AS (
                 SELECT CASE WHEN $4 THEN e.member_id END AS member_id, CASE WHEN $5 THEN e.project_id END AS project_id,
                   CASE WHEN $6 THEN e.entry_date END AS day,
                   (sum(e.real_hours) * 100)::bigint AS real, (sum(e.billable_hours) * 100)::bigint AS billable
                 FROM timesheet.entries e "# + $which + r#"
                 GROUP BY 1, 2, 3),
               whole AS (SELECT count(*) AS rows, sum(real)::bigint AS real, sum(billable)::bigint AS billable FROM sums)
               SELECT r.member_id, r.project_id, p.code AS "code?", p.name AS "name?", r.day,
                 r.real AS "real!", r.billable AS "billable!", whole.rows AS "total!",
                 whole.real AS "all_real!", whole.billable AS "all_billable!"
               FROM whole, sums r LEFT JOIN timesheet.projects p ON p.company_id = $1 AND p.id = r.project_id
               ORDER BY r.member_id, p.code COLLATE "C", r.day LIMIT $7 OFFSET $8"#,
            $permit.company.as_uuid(),
            $asked.from.date(),
            $asked.to.date(),
            $asked.by.member,
            $asked.by.project,
            $asked.by.day,
            $limit,
            $offset
            $(, $value)*
        )
        .fetch_all($connection)
        .await
    };
}

/// Reads rows of a report, by member, project code and day.
pub(super) async fn sums(
    pool: &PgPool,
    permit: &Permit,
    asked: &Asked,
    limit: i64,
    offset: i64,
) -> Result<Found, ApiError> {
    let statuses: Option<Vec<String>> =
        asked.statuses.as_ref().map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    let mut tx = transaction::begin(pool, "BEGIN").await?;
    // A generic plan reads the index as if the range were a few days, and takes ten times as long for a year.
    sqlx::query("SET LOCAL plan_cache_mode = force_custom_plan").execute(&mut *tx).await?;
    let rows = if let Some(statuses) = statuses {
        // An entry of a week without a submission is a draft. The first day's week begins at most six days before it.
        sums_of!(
            &mut *tx,
            permit,
            asked,
            limit,
            offset,
            "LEFT JOIN timesheet.submissions s ON s.company_id = $1 AND s.member_id = e.member_id
               AND s.week_start = e.week_start AND s.is_current AND s.week_start BETWEEN $2::date - 6 AND $3
             WHERE e.company_id = $1 AND e.entry_date BETWEEN $2 AND $3
               AND CASE WHEN s.status IS NULL OR s.status = 'reverted' THEN 'draft' ELSE s.status END = ANY($9)",
            statuses.as_slice()
        )?
    } else {
        sums_of!(
            &mut *tx,
            permit,
            asked,
            limit,
            offset,
            "WHERE e.company_id = $1 AND e.entry_date BETWEEN $2 AND $3"
        )?
    };
    tx.commit().await?;
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
