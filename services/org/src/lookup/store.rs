//! Reads of members, positions and groups for modules. As in the derived tuples, only an active member holds a position
//! or counts in a group.

use contract::Subject;
use contract::id::{CompanyId, MemberId};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::rules::{AssignableGroup, AssignablePosition, FoundGroup, FoundMember, FoundPosition};

/// Maximum length of a list of assignables.
const MAX_ASSIGNABLES: i64 = 1_000;
/// Maximum number of a group's logins in an answer.
const MAX_LOGINS: i64 = 1_000;

/// Returns the company's members with these ids.
pub(super) async fn members(
    conn: &mut PgConnection,
    company: CompanyId,
    ids: &[Uuid],
) -> sqlx::Result<Vec<FoundMember>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        "SELECT id, display_name, email, is_active, user_id FROM org.members
          WHERE company_id = $1 AND id = ANY($2) ORDER BY id",
        company.as_uuid(),
        ids,
    )
    .fetch_all(conn)
    .await?;
    let found = rows.into_iter().map(|row| FoundMember {
        id: row.id.into(),
        display_name: row.display_name,
        email: row.email,
        is_active: row.is_active,
        kc_sub: row.user_id.as_deref().and_then(Subject::parse),
    });
    Ok(found.collect())
}

/// Returns the company's positions with these ids.
pub(super) async fn positions(
    conn: &mut PgConnection,
    company: CompanyId,
    ids: &[Uuid],
    with_logins: bool,
) -> sqlx::Result<Vec<FoundPosition>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"SELECT p.id, p.title, m.id AS "holder?", m.display_name AS "name?", m.user_id AS "login?"
             FROM org.positions p
             LEFT JOIN org.assignments a ON a.position_id = p.id AND a.valid_to IS NULL
             LEFT JOIN org.members m ON m.id = a.member_id AND m.is_active
            WHERE p.company_id = $1 AND p.id = ANY($2) ORDER BY p.id"#,
        company.as_uuid(),
        ids,
    )
    .fetch_all(conn)
    .await?;
    let found = rows.into_iter().map(|row| FoundPosition {
        id: row.id.into(),
        title: row.title,
        holder_member_id: row.holder.map(MemberId::from),
        holder_display_name: row.name,
        logins: row.login.filter(|_| with_logins).as_deref().and_then(Subject::parse).into_iter().collect(),
    });
    Ok(found.collect())
}

/// Returns the company's groups with these ids.
pub(super) async fn groups(
    conn: &mut PgConnection,
    company: CompanyId,
    ids: &[Uuid],
    with_logins: bool,
) -> sqlx::Result<Vec<FoundGroup>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"SELECT g.id, g.name, g.is_active,
                  (SELECT count(*) FROM org.group_members gm JOIN org.members m ON m.id = gm.member_id AND m.is_active
                    WHERE gm.group_id = g.id) AS "member_count!",
                  ARRAY(SELECT m.user_id FROM org.group_members gm JOIN org.members m ON m.id = gm.member_id AND m.is_active
                    WHERE gm.group_id = g.id AND m.user_id IS NOT NULL ORDER BY m.id LIMIT $3) AS "logins!: Vec<String>"
             FROM org.groups g WHERE g.company_id = $1 AND g.id = ANY($2) ORDER BY g.id"#,
        company.as_uuid(),
        ids,
        if with_logins { MAX_LOGINS } else { 0 },
    )
    .fetch_all(conn)
    .await?;
    let found = rows.into_iter().map(|row| FoundGroup {
        id: row.id.into(),
        title: row.name,
        is_active: row.is_active,
        member_count: row.member_count,
        logins: row.logins.iter().filter_map(|login| Subject::parse(login)).collect(),
    });
    Ok(found.collect())
}

/// Lists the company's positions by title.
pub(super) async fn assignable_positions(
    pool: &PgPool,
    company: CompanyId,
) -> sqlx::Result<Vec<AssignablePosition>> {
    let rows = sqlx::query!(
        r#"SELECT p.id, p.title, m.id AS "holder?", m.display_name AS "name?"
             FROM org.positions p
             LEFT JOIN org.assignments a ON a.position_id = p.id AND a.valid_to IS NULL
             LEFT JOIN org.members m ON m.id = a.member_id AND m.is_active
            WHERE p.company_id = $1 ORDER BY p.title COLLATE "C", p.id LIMIT $2"#,
        company.as_uuid(),
        MAX_ASSIGNABLES,
    )
    .fetch_all(pool)
    .await?;
    let list = rows.into_iter().map(|row| AssignablePosition {
        position_id: row.id.into(),
        title: row.title,
        holder_member_id: row.holder.map(MemberId::from),
        holder_display_name: row.name,
    });
    Ok(list.collect())
}

/// Lists the company's active groups by title.
pub(super) async fn assignable_groups(
    pool: &PgPool,
    company: CompanyId,
) -> sqlx::Result<Vec<AssignableGroup>> {
    let rows = sqlx::query!(
        r#"SELECT g.id, g.name,
                  (SELECT count(*) FROM org.group_members gm JOIN org.members m ON m.id = gm.member_id AND m.is_active
                    WHERE gm.group_id = g.id) AS "member_count!"
             FROM org.groups g WHERE g.company_id = $1 AND g.is_active
            ORDER BY g.name COLLATE "C", g.id LIMIT $2"#,
        company.as_uuid(),
        MAX_ASSIGNABLES,
    )
    .fetch_all(pool)
    .await?;
    let list = rows.into_iter().map(|row| AssignableGroup {
        group_id: row.id.into(),
        title: row.name,
        member_count: row.member_count,
    });
    Ok(list.collect())
}
