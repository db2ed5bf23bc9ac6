//! Pages of submissions, latest week first. A page is found by an index that holds the order and the ids alone, and only
//! its own rows are read; how long a list is, `counts.rs` keeps.

use contract::page::{Page, PageRequest};
use service::{ApiError, Permit};
use sqlx::PgPool;
use uuid::Uuid;

use super::rules::{Submission, View, Who};
use super::store::Row;

/// A page query over the ids that $ids names, with the length of the whole list; one text a view, so that each has its
/// own plan over its own index. $1 is the company, $2 and $3 the page.
macro_rules! page_of {
    ($pool:expr, $permit:expr, $page:expr, $ids:literal, $total:literal $(, $value:expr)*) => {
        sqlx::query_as!(
            Row,
            r#"SELECT s.id AS "id!", s.member_id AS "member_id!", s.week_start AS "week_start!",
                 s.version_number AS "version_number!", s.root_id AS "root_id!", s.supersedes_id,
                 s.is_current AS "is_current!", s.status AS "status!", s.assigned_approver_member_id, s.reject_reason,
                 s.submitted_by AS "submitted_by!", (("# + $total + r#"))::bigint AS "total!"
               FROM ("# + $ids + r#" ORDER BY week_start DESC, member_id, version_number DESC LIMIT $2 OFFSET $3) page
               JOIN timesheet.submissions s ON s.id = page.id
               ORDER BY s.week_start DESC, s.member_id, s.version_number DESC"#,
            $permit.company.as_uuid(),
            $page.limit(),
            $page.offset()
            $(, $value)*
        )
        .fetch_all($pool)
        .await
    };
}

/// One page of a view.
pub(super) async fn page(
    pool: &PgPool,
    permit: &Permit,
    view: View,
    who: &Who,
    page: PageRequest,
) -> Result<Page<Submission>, ApiError> {
    let rows = rows(pool, permit, view, who, page).await?;
    let total = match rows.first() {
        Some(row) => row.total,
        // A page past the end does not tell the length of the list.
        None => self::rows(pool, permit, view, who, FIRST).await?.first().map_or(0, |row| row.total),
    };
    let items = rows.into_iter().map(|row| row.submission(permit.company));
    Ok(Page::new(page, items.collect::<Result<_, _>>()?, total))
}

const FIRST: PageRequest = PageRequest { page: 1, page_size: 1 };

async fn rows(
    pool: &PgPool,
    permit: &Permit,
    view: View,
    who: &Who,
    page: PageRequest,
) -> Result<Vec<Row>, ApiError> {
    let member = who.member.map(contract::id::MemberId::as_uuid);
    let rows = match view {
        View::Mine => page_of!(
            pool,
            permit,
            page,
            "SELECT id, week_start, member_id, version_number FROM timesheet.submissions
             WHERE company_id = $1 AND member_id = $4",
            "SELECT count(*) FROM timesheet.submissions WHERE company_id = $1 AND member_id = $4",
            member
        )?,
        // Nobody is assigned to decide his own weeks.
        View::Approvals if !who.approver => page_of!(
            pool,
            permit,
            page,
            "SELECT id, week_start, member_id, version_number FROM timesheet.submissions
             WHERE company_id = $1 AND assigned_approver_member_id = $4",
            "SELECT coalesce(sum(submissions), 0) FROM timesheet.submission_counts
             WHERE company_id = $1 AND approver_member_id = $4",
            member
        )?,
        View::Approvals => page_of!(
            pool,
            permit,
            page,
            "SELECT id, week_start, member_id, version_number FROM (
               (SELECT id, week_start, member_id, version_number FROM timesheet.submissions
                WHERE company_id = $1 AND assigned_approver_member_id = $4
                ORDER BY week_start DESC, member_id, version_number DESC LIMIT $2::bigint + $3::bigint)
               UNION ALL
               (SELECT id, week_start, member_id, version_number FROM timesheet.submissions
                WHERE company_id = $1 AND assigned_approver_member_id IS NULL AND member_id <> $4
                ORDER BY week_start DESC, member_id, version_number DESC LIMIT $2::bigint + $3::bigint)) of_two",
            "SELECT coalesce(sum(submissions), 0) FROM timesheet.submission_counts
             WHERE company_id = $1 AND approver_member_id IN ($4, $5))
             - (SELECT count(*) FROM timesheet.submissions
             WHERE company_id = $1 AND member_id = $4 AND assigned_approver_member_id IS NULL",
            member,
            Uuid::nil()
        )?,
        View::All => page_of!(
            pool,
            permit,
            page,
            "SELECT id, week_start, member_id, version_number FROM timesheet.submissions WHERE company_id = $1",
            "SELECT coalesce(sum(submissions), 0) FROM timesheet.submission_counts WHERE company_id = $1"
        )?,
    };
    Ok(rows)
}
