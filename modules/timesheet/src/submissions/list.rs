//! Pages of submissions, latest week first. A page's first week comes from the counts in `counts.rs`, its ids come from
//! an index that contains only the order and the ids, and only its own rows are read. So the last page of a hundred
//! thousand takes as long as the first.

use contract::id::CompanyId;
use contract::page::{Page, PageRequest};
use service::{ApiError, Permit};
use sqlx::PgPool;

use super::counts::{ANYBODY, NOBODY};
use super::rules::{Submission, View, Who};
use super::store::Row;

/// Selects a page of the ids that `$ids` describes, with one statement per view, so that each has its own plan over its
/// own index. `$weeks` counts the list by week. `$1` is the company, `$2` and `$3` are the page; `first` is the page's
/// first week and how many of that week's submissions precede the page. Rows are looked up one by one for any page
/// length, because a generic plan must not read the whole table.
macro_rules! page_of {
    ($list:expr, $ids:literal, $weeks:literal $(, $value:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"WITH weeks AS (SELECT week_start, sum(n) AS n FROM ("# + $weeks + r#") AS counted GROUP BY week_start),
               sums AS (SELECT week_start, sum(n) OVER (ORDER BY week_start DESC) - n AS before,
                 sum(n) OVER (ORDER BY week_start DESC) AS upto FROM weeks),
               first AS (SELECT week_start, ($3::bigint - before)::bigint AS skipped FROM sums
                 WHERE upto > $3::bigint ORDER BY week_start DESC LIMIT 1)
               SELECT s.id AS "id!", s.member_id AS "member_id!", s.week_start AS "week_start!",
                 s.version_number AS "version_number!", s.root_id AS "root_id!", s.supersedes_id,
                 s.is_current AS "is_current!", s.status AS "status!", s.assigned_approver_member_id, s.reject_reason,
                 s.submitted_by AS "submitted_by!", (SELECT sum(n) FROM weeks)::bigint AS "total!"
               FROM ("# + $ids + r#" ORDER BY week_start DESC, member_id, version_number DESC
                 LIMIT $2::bigint OFFSET (SELECT skipped FROM first)) AS page
               CROSS JOIN LATERAL (SELECT * FROM timesheet.submissions WHERE id = page.id OFFSET 0) AS s
               ORDER BY s.week_start DESC, s.member_id, s.version_number DESC"#,
            $list.company.as_uuid(),
            $list.limit,
            $list.offset
            $(, $value)*
        )
        .fetch_all($list.pool)
        .await
    };
}

/// Rows of one company's list.
struct Asked<'a> {
    pool: &'a PgPool,
    company: CompanyId,
    limit: i64,
    offset: i64,
}

/// Lists one page of a view.
pub(super) async fn page(
    pool: &PgPool,
    permit: &Permit,
    view: View,
    who: &Who,
    page: PageRequest,
) -> Result<Page<Submission>, ApiError> {
    let company = permit.company;
    let rows = |limit, offset| rows(Asked { pool, company, limit, offset }, view, who);
    service::page::load(page, rows, |row| row.total, |row| row.submission(company)).await
}

async fn rows(list: Asked<'_>, view: View, who: &Who) -> sqlx::Result<Vec<Row>> {
    let member = who.member.map(contract::id::MemberId::as_uuid);
    let rows = match view {
        View::Mine => page_of!(
            list,
            "SELECT id, week_start, member_id, version_number FROM timesheet.submissions
             WHERE company_id = $1 AND member_id = $4 AND week_start <= (SELECT week_start FROM first)",
            "SELECT week_start, 1 AS n FROM timesheet.submissions WHERE company_id = $1 AND member_id = $4",
            member
        )?,
        // Members are never assigned to decide their own weeks.
        View::Approvals if !who.approver => page_of!(
            list,
            "SELECT id, week_start, member_id, version_number FROM timesheet.submissions
             WHERE company_id = $1 AND assigned_approver_member_id = $4
               AND week_start <= (SELECT week_start FROM first)",
            "SELECT week_start, submissions AS n FROM timesheet.submission_weeks
             WHERE company_id = $1 AND approver_member_id = $4",
            member
        )?,
        View::Approvals => page_of!(
            list,
            "SELECT id, week_start, member_id, version_number FROM (
               (SELECT id, week_start, member_id, version_number FROM timesheet.submissions
                WHERE company_id = $1 AND assigned_approver_member_id = $4
                  AND week_start <= (SELECT week_start FROM first)
                ORDER BY week_start DESC, member_id, version_number DESC
                LIMIT $2::bigint + (SELECT skipped FROM first))
               UNION ALL
               (SELECT id, week_start, member_id, version_number FROM timesheet.submissions
                WHERE company_id = $1 AND assigned_approver_member_id IS NULL AND member_id <> $4
                  AND week_start <= (SELECT week_start FROM first)
                ORDER BY week_start DESC, member_id, version_number DESC
                LIMIT $2::bigint + (SELECT skipped FROM first))) AS of_two",
            "SELECT week_start, submissions AS n FROM timesheet.submission_weeks
             WHERE company_id = $1 AND approver_member_id IN ($4, $5)
             UNION ALL
             SELECT week_start, -1 FROM timesheet.submissions
             WHERE company_id = $1 AND member_id = $4 AND assigned_approver_member_id IS NULL",
            member,
            NOBODY
        )?,
        View::All => page_of!(
            list,
            "SELECT id, week_start, member_id, version_number FROM timesheet.submissions
             WHERE company_id = $1 AND week_start <= (SELECT week_start FROM first)",
            "SELECT week_start, submissions AS n FROM timesheet.submission_weeks
             WHERE company_id = $1 AND approver_member_id = $4",
            ANYBODY
        )?,
    };
    Ok(rows)
}
