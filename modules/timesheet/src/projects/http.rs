//! Lists, creates and replaces projects.

use axum::extract::State;
use contract::page::Page;
use service::{ApiError, Body, CompanyTx, Created, Data, Permit, Query, changes};

use super::rules::{Project, ProjectBody, ProjectId};
use super::store;
use crate::App;

pub(crate) async fn list(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Page<Project>>, ApiError> {
    Ok(Data(store::list(&app.core.reads, &permit, query.page()?).await?))
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<ProjectBody>,
) -> Result<Created<Project>, ApiError> {
    let project = Project { id: ProjectId::mint(), company_id: permit.company, content: body.created() };
    let mut tx = permit.begin(&app.core).await?;
    store::insert(&mut tx, &project).await?;
    let changed = changes(None, &project.content)?;
    tx.commit("project.created", project.subject(), changed).await?;
    Ok(Created(project))
}

pub(crate) async fn update(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<ProjectBody>,
) -> Result<Data<Project>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let found = store::lock(&mut tx, permit.path.id("projectId")?).await?;
    let before = found.ok_or(ApiError::NotFound("project".into()))?;
    let after = Project { content: body.replacing(&before.content), ..before.clone() };
    let save = async |tx: &mut CompanyTx| store::save(tx, &after).await;
    tx.commit_change(&before.content, &after.content, save, "project.updated", after.subject()).await?;
    Ok(Data(after))
}
