//! How a document is shown to the caller of an operation: with the caller's own role and the owner's name.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use service::ApiError;

use super::rules::{Document, Looker, Role, StoredDocument};
use crate::admission::Admitted;
use crate::{App, names, visibility};

/// The document as its caller sees it.
///
/// # Errors
/// 503 when the caller's place cannot be asked of org, or the index not read.
pub(crate) async fn shown(
    app: &App,
    admitted: &Admitted,
    document: StoredDocument,
) -> Result<Document, ApiError> {
    let owner = document.owner_member;
    let (role, names) =
        tokio::join!(role(app, admitted, &document), names::of_members(app, admitted, [owner].into_iter()));
    let name = names.get(&owner).cloned();
    Ok(document.shown(role?, name))
}

/// The best of what the index says and what authz has just allowed: a tuple that no share of the module stands for opens
/// the document, too.
async fn role(app: &App, admitted: &Admitted, document: &StoredDocument) -> Result<Option<Role>, ApiError> {
    if document.owner == admitted.subject {
        return Ok(Some(Role::Owner));
    }
    let member = app.org.member_context_if_any(admitted).await?;
    let looker = Looker { subject: &admitted.subject, member: member.as_ref(), manages: admitted.as_manager };
    let ranks = visibility::ranks(&app.core.pool, admitted, &looker, &[document.id]).await?;
    let indexed = Role::of(document, &looker, ranks.get(&document.id).copied().unwrap_or_default());
    let allowed = match admitted.feature.relation {
        _ if admitted.as_manager => None,
        "viewer" => Some(Role::Viewer),
        "commenter" => Some(Role::Commenter),
        "editor" => Some(Role::Editor),
        _ => None,
    };
    Ok(indexed.max(allowed))
}

/// What is shared may be unshared the next moment: no answer is kept on the way.
pub(crate) fn uncached(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
