//! Rows of `org.units` and `org.unit_types`.

use contract::id::{CompanyId, UnitId};
use service::ApiError;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::rules::{OrgUnit, Parent, Placed};

struct Row {
    id: Uuid,
    type_key: String,
    parent_id: Option<Uuid>,
    code: String,
    name: String,
    is_active: bool,
}

impl From<Row> for OrgUnit {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.into(),
            type_key: row.type_key,
            parent_id: row.parent_id.map(UnitId::from),
            code: row.code,
            name: row.name,
            is_active: row.is_active,
        }
    }
}

/// Returns the unit with this id.
pub(crate) async fn find(db: impl PgExecutor<'_>, id: UnitId) -> sqlx::Result<Option<OrgUnit>> {
    let row = sqlx::query_as!(
        Row,
        "SELECT id, type_key, parent_id, code, name, is_active FROM org.units WHERE id = $1",
        id.as_uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(OrgUnit::from))
}

/// Returns the unit and all units below it, by level, code and id; empty if there is no such unit. Parents are
/// immutable, so the recursion terminates.
pub(crate) async fn subtree(db: impl PgExecutor<'_>, root: UnitId) -> sqlx::Result<Vec<OrgUnit>> {
    let rows = sqlx::query_as!(
        Row,
        r#"WITH RECURSIVE tree AS (
             SELECT id, type_key, parent_id, code, name, is_active, depth FROM org.units WHERE id = $1
             UNION ALL
             SELECT u.id, u.type_key, u.parent_id, u.code, u.name, u.is_active, u.depth
               FROM org.units u JOIN tree ON u.parent_id = tree.id)
           SELECT id AS "id!", type_key AS "type_key!", parent_id, code AS "code!", name AS "name!",
                  is_active AS "is_active!"
             FROM tree ORDER BY depth, code COLLATE "C", id"#,
        root.as_uuid()
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(OrgUnit::from).collect())
}

/// Returns the types that may be the parent of a type; `None` if there is no such type.
pub(crate) async fn allowed_parents(
    conn: &mut PgConnection,
    type_key: &str,
) -> sqlx::Result<Option<Vec<String>>> {
    sqlx::query_scalar!("SELECT allowed_parents FROM org.unit_types WHERE type_key = $1", type_key)
        .fetch_optional(conn)
        .await
}

/// Returns the properties of a unit that a new unit below it depends on.
pub(crate) async fn parent(conn: &mut PgConnection, id: UnitId) -> sqlx::Result<Option<Parent>> {
    let row = sqlx::query!("SELECT company_id, type_key, depth FROM org.units WHERE id = $1", id.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(row.map(|row| Parent {
        company: CompanyId::from(row.company_id),
        type_key: row.type_key,
        depth: row.depth,
    }))
}

/// Adds a unit.
///
/// # Errors
/// 409 if the code is taken: among all companies for a company, within its company for another unit.
pub(crate) async fn insert(conn: &mut PgConnection, placed: &Placed) -> Result<(), ApiError> {
    let unit = &placed.unit;
    let added = sqlx::query!(
        "INSERT INTO org.units(id, company_id, type_key, parent_id, depth, code, name)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        unit.id.as_uuid(),
        placed.company.as_uuid(),
        unit.type_key,
        unit.parent_id.map(UnitId::as_uuid),
        placed.depth,
        unit.code,
        unit.name,
    )
    .execute(conn)
    .await;
    added.map(|_| ()).map_err(refusal)
}

fn refusal(error: sqlx::Error) -> ApiError {
    let constraint = error.as_database_error().and_then(sqlx::error::DatabaseError::constraint);
    match constraint {
        Some("units_company_code") => ApiError::conflict_field("code", "another company has this code"),
        Some("units_code") => ApiError::conflict_field("code", "another unit of this company has this code"),
        _ => error.into(),
    }
}

/// Whether there is a company with this id.
pub(crate) async fn company_exists(conn: &mut PgConnection, id: CompanyId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS(SELECT FROM org.units WHERE id = $1 AND type_key = 'company') AS "exists!""#,
        id.as_uuid()
    )
    .fetch_one(conn)
    .await
}

/// Takes a shared lock on the company's row until the transaction ends. Writes within the company share it; the repair
/// of its derived tuples locks it exclusively.
pub(crate) async fn share_company(conn: &mut PgConnection, company: CompanyId) -> sqlx::Result<()> {
    sqlx::query!("SELECT id FROM org.units WHERE id = $1 FOR KEY SHARE", company.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(())
}
