//! Lists, writes and resolves comments.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Value, json};
use service::idempotency::{self, Done, Key, Once};
use service::query::both;
use service::refusal::conflict;
use service::{ApiError, CompanyCall, Data, Query, UnreadBody};

use super::rules::{Comment, CommentBody, CommentId, Which};
use super::store;
use crate::App;
use crate::admission;
use crate::documents::answer::uncached;
use crate::documents::rules::{State as Stored, subject_of, trashed};

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Response, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let _read = admitted.wait_to_read(&app).await?;
    let (which, page) = both(query.word("status", Which::WORDS, Which::All), query.page())?;
    loop {
        let found = store::list(&app.core.pool, &admitted, which, page).await?;
        if admitted.held(&app).await? {
            return Ok(uncached(Data(found)));
        }
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    call: CompanyCall,
    headers: HeaderMap,
    body: UnreadBody,
) -> Result<Once<Comment>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let key = Key::of(&headers)?;
    let CommentBody(body) = body.read().await?.parse()?;
    let id = admitted.gist.id.to_string();
    let canonical = json!({ "body": body });
    let attempt = key.map(|key| key.attempt(admitted.company, admitted.operation.id, &[&id], &canonical));
    let (tx, document, _) = admitted.lock(&app).await?;
    if document.state != Stored::Active {
        return Err(trashed());
    }
    idempotency::once(tx, attempt.as_ref(), async |tx| {
        let comment = store::add(tx, &document, &body).await?;
        let told = json!({ "commentId": comment.id, "version": comment.version });
        let event = tx.event("comment.created", document.audit_subject(), told);
        Ok(Done { resource: Some(comment.id.as_uuid()), answer: comment, event })
    })
    .await
}

pub(crate) async fn resolve(State(app): State<App>, call: CompanyCall) -> Result<Data<Comment>, ApiError> {
    let mut admitted = admission::admit(&app, call).await?;
    let (document, id) = (admitted.gist.id, admitted.path.id::<CommentId>("commentId")?);
    let (mut tx, locked, _) = admitted.lock(&app).await?;
    if locked.state != Stored::Active {
        return Err(trashed());
    }
    let Some(comment) = store::resolve(&mut tx, document, id).await? else {
        let is_resolved = store::exists(&mut tx, document, id).await?;
        tx.unchanged().await?;
        return Err(if is_resolved {
            conflict("COMMENT_RESOLVED", "the comment is already resolved", Value::Null)
        } else {
            ApiError::NotFound("comment".into())
        });
    };
    tx.commit("comment.resolved", subject_of(document), json!({ "commentId": id })).await?;
    Ok(Data(comment))
}
