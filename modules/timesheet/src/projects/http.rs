//! Lists, creates and replaces projects.

use axum::extract::State;
use contract::page::Page;
use serde_json::{Map, Value};
use service::{ApiError, AuditEvent, CompanyCall, Created, Data, Permit, Query, RawBody, changes};

use super::rules::{Project, ProjectBody, ProjectId};
use super::store;
use crate::{App, features};

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Data<Page<Project>>, ApiError> {
    let permit = call.permit(&app.permits, &features::PROJECTS_READ).await?;
    let page = query.page()?;
    Ok(Data(store::list(&app.core.pool, &permit, page).await?))
}

pub(crate) async fn create(
    State(app): State<App>,
    call: CompanyCall,
    body: RawBody,
) -> Result<Created<Project>, ApiError> {
    let permit = call.permit(&app.permits, &features::PROJECTS_MANAGE).await?;
    let body: ProjectBody = body.parse()?;
    let project = Project { id: ProjectId::mint(), company_id: permit.company, content: body.created() };
    let mut tx = app.core.begin(&permit.subject, &permit.correlation).await?;
    store::insert(&mut tx, &permit, &project).await?;
    let event = event(&permit, "project.created", project.id, changes(None, &project.content)?);
    tx.commit(&event).await?;
    Ok(Created(project))
}

pub(crate) async fn update(
    State(app): State<App>,
    call: CompanyCall,
    body: RawBody,
) -> Result<Data<Project>, ApiError> {
    let id: ProjectId = call.path.id("projectId")?;
    let permit = call.permit(&app.permits, &features::PROJECTS_MANAGE).await?;
    let body: ProjectBody = body.parse()?;
    let mut tx = app.core.begin(&permit.subject, &permit.correlation).await?;
    let found = store::lock(&mut tx, &permit, id).await?;
    let before = found.ok_or(ApiError::NotFound("project".into()))?;
    let after = Project { content: body.replacing(&before.content), ..before.clone() };
    let changed = changes(Some(&before.content), &after.content)?;
    if changed.is_empty() {
        tx.unchanged().await?;
    } else {
        store::save(&mut tx, &permit, &after).await?;
        tx.commit(&event(&permit, "project.updated", id, changed)).await?;
    }
    Ok(Data(after))
}

fn event(
    permit: &Permit,
    action: &'static str,
    project: ProjectId,
    changed: Map<String, Value>,
) -> AuditEvent {
    AuditEvent {
        company: Some(permit.company),
        action,
        subject: format!("project:{project}"),
        payload: Value::Object(changed),
    }
}
