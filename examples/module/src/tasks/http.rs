//! Lists, creates, reads, replaces and deletes tasks.

use axum::extract::State;
use http::HeaderMap;
use serde_json::json;
use service::idempotency::{Key, Once};
use service::page::{Cursor, Slice};
use service::{ApiError, Body, Data, ObjectPermit, Permit, Query, RawBody, changes};

use super::rules::{Content, Task};
use super::store::{self, NewTask};
use crate::{App, operations};

pub(crate) async fn list(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<Slice<Task>>, ApiError> {
    let cursor = Cursor::of(&query)?;
    let all = app.permits.probe(&permit, &operations::LIST_ALL).await?;
    let owner = (!all).then_some(&permit.subject);
    Ok(Data(store::list(&app.core.pool, &permit, owner, &cursor).await?))
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Task>, ApiError> {
    let key = Key::of(&headers)?;
    let content: Content = body.parse()?;
    let attempt = key.map(|key| key.attempt(permit.company, permit.operation.id, &[], &json!(content)));
    let new = NewTask { company: permit.company, owner: permit.subject.clone(), content };
    app.two_store().create(&permit, attempt.as_ref(), &new).await
}

pub(crate) async fn read(State(app): State<App>, permit: ObjectPermit) -> Result<Data<Task>, ApiError> {
    let found = store::find(&app.core.pool, &permit).await?;
    found.map(Data).ok_or(ApiError::NotFound("task".into()))
}

pub(crate) async fn replace(
    State(app): State<App>,
    permit: ObjectPermit,
    Body(content): Body<Content>,
) -> Result<Data<Task>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let found = store::lock(&mut tx, permit.path.id("taskId")?).await?;
    let before = found.ok_or(ApiError::NotFound("task".into()))?;
    let changed = changes(Some(&before.content), &content)?;
    let after = Task { content, ..before };
    if changed.is_empty() {
        tx.unchanged().await?;
    } else {
        store::save(&mut tx, &after).await?;
        tx.commit("task.replaced", after.subject(), changed).await?;
    }
    Ok(Data(after))
}

pub(crate) async fn delete(State(app): State<App>, permit: ObjectPermit) -> Result<Data<Task>, ApiError> {
    let deleted = app.two_store().remove::<Task>(&permit, permit.path.id("taskId")?).await?;
    Ok(Data(deleted))
}
