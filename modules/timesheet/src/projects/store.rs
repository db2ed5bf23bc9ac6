//! `timesheet.projects`. Codes are ordered by code point, so that lists have the same order on every machine.

use contract::id::CompanyId;
use contract::page::{MAX_PAGE_SIZE, Page, PageRequest};
use serde_json::json;
use service::db::on_constraint;
use service::page;
use service::refusal::conflict;
use service::{ApiError, CompanyTx, Permit, Reads};
use uuid::Uuid;

use super::rules::{Project, ProjectContent, ProjectId, Status};

/// Lists one page of projects of both statuses.
pub(super) async fn list(
    reads: &Reads,
    permit: &Permit,
    page: PageRequest,
) -> Result<Page<Project>, ApiError> {
    let rows = async |limit, offset| match offset {
        0 => first(reads, permit.company, limit).await,
        _ => next(reads, permit.company, limit, offset).await,
    };
    page::load(
        page,
        rows,
        |row| row.total,
        |row| project(permit.company, row.id, row.code, row.name, &row.status),
    )
    .await
}

const _: () = assert!(MAX_PAGE_SIZE == 100, "the inner limit of `first`");

/// A project and the number of all projects.
struct CountedRow {
    id: Uuid,
    code: String,
    name: String,
    status: String,
    total: i64,
}

/// Reads the first page. Without the inner limit, PostgreSQL expects the outer one to take a tenth of the projects and plans
/// the statement at each execution.
async fn first(reads: &Reads, company: CompanyId, limit: i64) -> sqlx::Result<Vec<CountedRow>> {
    sqlx::query_as!(
        CountedRow,
        r#"SELECT id, code, name, status, total AS "total!"
             FROM (SELECT id, code, name, status, count(*) OVER () AS total
                     FROM timesheet.projects WHERE company_id = $1 ORDER BY code COLLATE "C", id LIMIT 100) p
            ORDER BY code COLLATE "C", id LIMIT $2"#,
        company.as_uuid(),
        limit
    )
    .fetch_all(reads)
    .await
}

/// Reads one of the next pages.
async fn next(reads: &Reads, company: CompanyId, limit: i64, offset: i64) -> sqlx::Result<Vec<CountedRow>> {
    sqlx::query_as!(
        CountedRow,
        r#"SELECT id, code, name, status, count(*) OVER () AS "total!"
             FROM timesheet.projects WHERE company_id = $1
            ORDER BY code COLLATE "C", id LIMIT $2 OFFSET $3"#,
        company.as_uuid(),
        limit,
        offset
    )
    .fetch_all(reads)
    .await
}

/// Locks a project of the company until the transaction ends, and reads it.
pub(super) async fn lock(tx: &mut CompanyTx, id: ProjectId) -> Result<Option<Project>, ApiError> {
    let row = sqlx::query!(
        "SELECT id, code, name, status FROM timesheet.projects
         WHERE company_id = $1 AND id = $2 FOR UPDATE",
        tx.company().as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    row.map(|row| project(tx.company(), row.id, row.code, row.name, &row.status)).transpose()
}

fn project(
    company: CompanyId,
    id: Uuid,
    code: String,
    name: String,
    status: &str,
) -> Result<Project, ApiError> {
    let content = ProjectContent { code, name, status: Status::of_word(status)? };
    Ok(Project { id: id.into(), company_id: company, content })
}

/// Adds a project to the transaction's company.
pub(super) async fn insert(tx: &mut CompanyTx, project: &Project) -> Result<(), ApiError> {
    let content = &project.content;
    sqlx::query!(
        "INSERT INTO timesheet.projects(id, company_id, code, name, status) VALUES ($1, $2, $3, $4, $5)",
        project.id.as_uuid(),
        tx.company().as_uuid(),
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
pub(super) async fn save(tx: &mut CompanyTx, project: &Project) -> Result<(), ApiError> {
    let content = &project.content;
    sqlx::query!(
        "UPDATE timesheet.projects SET code = $3, name = $4, status = $5, updated_at = now()
         WHERE company_id = $1 AND id = $2",
        tx.company().as_uuid(),
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

/// Maps a violation of the unique index to the refusal of a taken code; a check before the write would race with
/// another writer.
fn code_taken(error: sqlx::Error, content: &ProjectContent) -> ApiError {
    on_constraint(error, "projects_code", || {
        let message = "another project of the company has this code";
        conflict("PROJECT_CODE_TAKEN", message, json!({ "code": content.code }))
    })
}
