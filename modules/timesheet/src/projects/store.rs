//! `timesheet.projects`. Codes are ordered by code point, so that a list has one order on every machine.

use contract::page::{Page, PageRequest};
use serde_json::json;
use service::db::on_constraint;
use service::{ApiError, AuditedTx, Permit};
use sqlx::PgPool;
use uuid::Uuid;

use super::rules::{Project, ProjectContent, ProjectId, Status};

struct Row {
    id: Uuid,
    code: String,
    name: String,
    status: String,
    total: i64,
}

/// One page, both statuses.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    page: PageRequest,
) -> Result<Page<Project>, ApiError> {
    let rows = rows(pool, permit, page.limit(), page.offset()).await?;
    let total = match rows.first() {
        Some(row) => row.total,
        None => total(pool, permit).await?,
    };
    let items = rows.into_iter().map(|row| project(permit, row.id, row.code, row.name, &row.status));
    Ok(Page::new(page, items.collect::<Result<_, _>>()?, total))
}

/// The length of the list; a page past its end does not tell it.
async fn total(pool: &PgPool, permit: &Permit) -> Result<i64, ApiError> {
    Ok(rows(pool, permit, 1, 0).await?.first().map_or(0, |row| row.total))
}

async fn rows(pool: &PgPool, permit: &Permit, limit: i64, offset: i64) -> Result<Vec<Row>, ApiError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, code, name, status, count(*) OVER () AS "total!"
           FROM timesheet.projects WHERE company_id = $1
           ORDER BY code COLLATE "C", id LIMIT $2 OFFSET $3"#,
        permit.company.as_uuid(),
        limit,
        offset
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

/// A project of the company, locked until the transaction ends.
pub(super) async fn lock(
    tx: &mut AuditedTx,
    permit: &Permit,
    id: ProjectId,
) -> Result<Option<Project>, ApiError> {
    let row = sqlx::query!(
        "SELECT id, code, name, status FROM timesheet.projects
         WHERE company_id = $1 AND id = $2 FOR UPDATE",
        permit.company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    row.map(|row| project(permit, row.id, row.code, row.name, &row.status)).transpose()
}

fn project(permit: &Permit, id: Uuid, code: String, name: String, status: &str) -> Result<Project, ApiError> {
    let unknown = || ApiError::internal(format!("project {id} has the unknown status \"{status}\""));
    let status = Status::of_word(status).ok_or_else(unknown)?;
    Ok(Project { id: id.into(), company_id: permit.company, content: ProjectContent { code, name, status } })
}

/// Adds a project to the company of the permit.
pub(super) async fn insert(tx: &mut AuditedTx, permit: &Permit, project: &Project) -> Result<(), ApiError> {
    let content = &project.content;
    sqlx::query!(
        "INSERT INTO timesheet.projects(id, company_id, code, name, status) VALUES ($1, $2, $3, $4, $5)",
        project.id.as_uuid(),
        permit.company.as_uuid(),
        content.code,
        content.name,
        content.status.word()
    )
    .execute(tx.conn())
    .await
    .map_err(|error| code_taken(error, content))?;
    Ok(())
}

/// Writes the content of a project that [`lock`] holds.
pub(super) async fn save(tx: &mut AuditedTx, permit: &Permit, project: &Project) -> Result<(), ApiError> {
    let content = &project.content;
    sqlx::query!(
        "UPDATE timesheet.projects SET code = $3, name = $4, status = $5, updated_at = now()
         WHERE company_id = $1 AND id = $2",
        permit.company.as_uuid(),
        project.id.as_uuid(),
        content.code,
        content.name,
        content.status.word()
    )
    .execute(tx.conn())
    .await
    .map_err(|error| code_taken(error, content))?;
    Ok(())
}

/// The table says that a code is taken, never a look before the write: two writers cannot both have looked.
fn code_taken(error: sqlx::Error, content: &ProjectContent) -> ApiError {
    on_constraint(error, "projects_code", || ApiError::Conflict {
        code: "PROJECT_CODE_TAKEN",
        message: "another project of the company has this code".into(),
        details: json!({ "code": content.code }),
    })
}
