//! Rows of `org.positions`.

use contract::id::{AssignmentId, CompanyId, MemberId};
use contract::page::{Page, PageRequest};
use service::ApiError;
use service::db::on_constraint;
use sqlx::{PgConnection, PgPool};

use super::rules::{OrgPosition, OrgPositionWithHolder};

/// Adds a position; returns false if its unit does not belong to its company.
///
/// # Errors
/// 422 if the code is taken in the company; the route has no 409.
pub(super) async fn insert(conn: &mut PgConnection, position: &OrgPosition) -> Result<bool, ApiError> {
    let added = sqlx::query!(
        "INSERT INTO org.positions(id, company_id, code, title, org_unit_id)
         SELECT $1, company_id, $3, $4, id FROM org.units WHERE company_id = $2 AND id = $5",
        position.id.as_uuid(),
        position.company_id.as_uuid(),
        position.code,
        position.title,
        position.org_unit_id.as_uuid(),
    )
    .execute(conn)
    .await;
    let taken = || {
        let message = "another position of this company has this code";
        ApiError::unprocessable_field("code", "unique", message)
    };
    added.map(|done| done.rows_affected() == 1).map_err(|error| on_constraint(error, "positions_code", taken))
}

/// Returns a page of a company's positions with their holders; empty for an unknown company. Joins holders only to the
/// rows of the page; joining them to every position of a large company takes five times as long.
pub(super) async fn page(
    pool: &PgPool,
    company: CompanyId,
    request: PageRequest,
) -> sqlx::Result<Page<OrgPositionWithHolder>> {
    let rows = sqlx::query!(
        r#"SELECT p.id AS "id!", p.company_id AS "company_id!", p.code AS "code!", p.title AS "title!",
                  p.org_unit_id AS "org_unit_id!", a.id AS "assignment_id?", m.id AS "member_id?",
                  m.display_name AS "holder?", (SELECT count(*) FROM org.positions WHERE company_id = $1) AS "total!"
             FROM (SELECT id, company_id, code, title, org_unit_id FROM org.positions
                    WHERE company_id = $1 ORDER BY code COLLATE "C", id LIMIT $2 OFFSET $3) p
             LEFT JOIN org.assignments a ON a.position_id = p.id AND a.valid_to IS NULL
             LEFT JOIN org.members m ON m.id = a.member_id
            ORDER BY p.code COLLATE "C", p.id"#,
        company.as_uuid(),
        request.limit(),
        request.offset(),
    )
    .fetch_all(pool)
    .await?;
    let total = match rows.first() {
        Some(row) => row.total,
        None => count(pool, company).await?,
    };
    let items = rows.into_iter().map(|row| OrgPositionWithHolder {
        position: OrgPosition {
            id: row.id.into(),
            company_id: row.company_id.into(),
            code: row.code,
            title: row.title,
            org_unit_id: row.org_unit_id.into(),
        },
        assignment_id: row.assignment_id.map(AssignmentId::from),
        member_id: row.member_id.map(MemberId::from),
        holder_display_name: row.holder,
    });
    Ok(Page::new(request, items.collect(), total))
}

/// Counts the positions for a page past the end, which has no row to carry the total.
async fn count(pool: &PgPool, company: CompanyId) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM org.positions WHERE company_id = $1"#,
        company.as_uuid()
    )
    .fetch_one(pool)
    .await
}
