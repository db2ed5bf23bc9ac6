//! Lists and reads versions, and restores the text of an old one as the newest.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use service::{ApiError, CompanyCall, Data, Query};

use super::rules::{number, unknown};
use super::store;
use crate::App;
use crate::admission;
use crate::documents::answer::{shown, uncached};
use crate::documents::rules::{Detail, State as Stored, size, trashed};
use crate::documents::store as documents;

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Response, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let _read = admitted.wait_to_read(&app).await?;
    let page = query.page()?;
    loop {
        let found = store::list(&app.core.pool, &admitted, page).await?;
        if admitted.held(&app).await? {
            return Ok(uncached(Data(found)));
        }
    }
}

pub(crate) async fn read(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let _read = app.core.long_reads.enter(&call.subject).await?;
    let mut admitted = admission::admit(&app, call).await?;
    loop {
        let found = store::find(&app.core.pool, &admitted, number(&admitted)?).await?;
        if admitted.held(&app).await? {
            return Ok(uncached(Data(found.ok_or_else(unknown)?)));
        }
    }
}

/// Adds a version with the old text even if it equals the current one, so that the restoration is on record.
pub(crate) async fn restore(State(app): State<App>, call: CompanyCall) -> Result<Data<Detail>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let number = number(&admitted)?;
    let (mut tx, document, current) = admitted.lock(&app).await?;
    if document.state != Stored::Active {
        return Err(trashed());
    }
    let content = store::content(&mut tx, document.id, number).await?.ok_or_else(unknown)?;
    documents::add_version(&mut tx, &document, &content, Some(number)).await?;
    let change = |from, to| json!({ "from": from, "to": to });
    let mut told = json!({
        "version": change(json!(document.version), json!(document.version + 1)),
        "size": change(json!(size(&current.body)), json!(size(&content.body))),
        "restoredFrom": number,
    });
    if let (true, Some(members)) = (content.title != current.title, told.as_object_mut()) {
        members.insert("title".to_owned(), json!({ "from": current.title, "to": content.title }));
    }
    let (written, content) = documents::written(&mut tx, document.id).await?;
    tx.commit("document.version_restored", document.audit_subject(), told).await?;
    Ok(Data(shown(&app, &admitted, written).await?.with_body(content.body)))
}
