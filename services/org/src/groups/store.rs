//! Rows of `org.groups` and `org.group_members`.

use contract::id::{CompanyId, GroupId, MemberId};
use contract::page::{Page, PageRequest};
use contract::timestamp::Timestamp;
use service::ApiError;
use service::db::on_constraint;
use sqlx::{PgConnection, PgPool};

use super::rules::{OrgGroup, OrgGroupMember, OrgGroupWithMemberCount, PLATFORM};

/// Adds a group.
///
/// # Errors
/// 400 if the code is taken in the company; the route has no 409.
pub(super) async fn insert(conn: &mut PgConnection, group: &OrgGroup) -> Result<(), ApiError> {
    let added = sqlx::query!(
        "INSERT INTO org.groups(id, company_id, code, name, source) VALUES ($1, $2, $3, $4, $5)",
        group.id.as_uuid(),
        group.company_id.as_uuid(),
        group.code,
        group.name,
        group.source,
    )
    .execute(conn)
    .await;
    let taken =
        || ApiError::validation_field("code", "unique", "another group of this company has this code");
    added.map(|_| ()).map_err(|error| on_constraint(error, "groups_code", taken))
}

/// Returns the group with this id.
pub(super) async fn find(conn: &mut PgConnection, id: GroupId) -> sqlx::Result<Option<OrgGroup>> {
    let row = sqlx::query!(
        "SELECT id, company_id, code, name, source, external_ref, is_active FROM org.groups WHERE id = $1",
        id.as_uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| OrgGroup {
        id: row.id.into(),
        company_id: row.company_id.into(),
        code: row.code,
        name: row.name,
        is_platform_managed: row.source == PLATFORM,
        source: row.source,
        external_ref: row.external_ref,
        is_active: row.is_active,
    }))
}

/// Takes a shared lock on a group until the transaction ends, so that it does not change.
pub(super) async fn share(conn: &mut PgConnection, id: GroupId) -> sqlx::Result<()> {
    sqlx::query!("SELECT id FROM org.groups WHERE id = $1 FOR SHARE", id.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(())
}

/// Returns a page of a company's groups; empty for an unknown company.
pub(super) async fn page(
    pool: &PgPool,
    company: CompanyId,
    request: PageRequest,
) -> sqlx::Result<Page<OrgGroupWithMemberCount>> {
    let rows = sqlx::query!(
        r#"SELECT g.id, g.company_id, g.code, g.name, g.source, g.external_ref, g.is_active,
                  (SELECT count(*) FROM org.group_members gm JOIN org.members m ON m.id = gm.member_id AND m.is_active
                    WHERE gm.group_id = g.id) AS "member_count!",
                  count(*) OVER () AS "total!"
             FROM org.groups g WHERE g.company_id = $1 ORDER BY g.code COLLATE "C", g.id LIMIT $2 OFFSET $3"#,
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
    let items = rows.into_iter().map(|row| OrgGroupWithMemberCount {
        group: OrgGroup {
            id: row.id.into(),
            company_id: row.company_id.into(),
            code: row.code,
            name: row.name,
            is_platform_managed: row.source == PLATFORM,
            source: row.source,
            external_ref: row.external_ref,
            is_active: row.is_active,
        },
        member_count: row.member_count,
    });
    Ok(Page::new(request, items.collect(), total))
}

/// Counts the groups for a page past the end, which has no row to carry the total.
async fn count(pool: &PgPool, company: CompanyId) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "total!" FROM org.groups WHERE company_id = $1"#,
        company.as_uuid()
    )
    .fetch_one(pool)
    .await
}

/// Lists the members of a group, including inactive ones; none for an unknown group.
pub(super) async fn members(pool: &PgPool, group: GroupId) -> sqlx::Result<Vec<OrgGroupMember>> {
    let rows = sqlx::query!(
        r#"SELECT gm.group_id, gm.member_id, gm.added_by, gm.added_at, m.display_name, m.email
             FROM org.group_members gm JOIN org.members m ON m.id = gm.member_id
            WHERE gm.group_id = $1 ORDER BY m.display_name COLLATE "C", m.id"#,
        group.as_uuid()
    )
    .fetch_all(pool)
    .await?;
    let members = rows.into_iter().map(|row| OrgGroupMember {
        group_id: row.group_id.into(),
        member_id: row.member_id.into(),
        added_by: row.added_by,
        added_at: Timestamp::from(row.added_at),
        member_display_name: row.display_name,
        member_email: row.email,
    });
    Ok(members.collect())
}

/// Adds a member to a group and returns the time at which it was added.
///
/// # Errors
/// 409 if the member is already in the group.
pub(super) async fn add(
    conn: &mut PgConnection,
    group: &OrgGroup,
    member: MemberId,
    by: &str,
) -> Result<Timestamp, ApiError> {
    let added = sqlx::query_scalar!(
        "INSERT INTO org.group_members(company_id, group_id, member_id, added_by) VALUES ($1, $2, $3, $4)
         RETURNING added_at",
        group.company_id.as_uuid(),
        group.id.as_uuid(),
        member.as_uuid(),
        by,
    )
    .fetch_one(conn)
    .await;
    let already = || ApiError::conflict("the member is already in the group");
    added.map(Timestamp::from).map_err(|error| on_constraint(error, "group_members_pkey", already))
}

/// Removes a member from a group; returns false if it was not in the group.
pub(super) async fn remove(conn: &mut PgConnection, group: GroupId, member: MemberId) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "DELETE FROM org.group_members WHERE group_id = $1 AND member_id = $2",
        group.as_uuid(),
        member.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
