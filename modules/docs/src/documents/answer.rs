//! Renders a document for the caller of an operation: with the caller's own role and the owner's name.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use service::ApiError;

use super::rules::{Document, Looker, Role, StoredDocument};
use crate::admission::Admitted;
use crate::{App, names, visibility};

/// Renders the document for its caller.
///
/// # Errors
/// 503 when org cannot provide the caller's member row, or when the database does not answer.
pub(crate) async fn shown(
    app: &App,
    admitted: &Admitted,
    document: StoredDocument,
) -> Result<Document, ApiError> {
    let owner = (document.owner_member, document.owner.clone());
    let (role, names) = tokio::join!(
        role(app, admitted, &document),
        names::of_owners(app, admitted, [owner.clone()].into_iter())
    );
    let name = names.get(&owner).cloned();
    Ok(document.shown(role?, name))
}

/// The better of the index's role and the one that authz has just allowed: a tuple without a share in this module also
/// opens the document.
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

/// Marks a response as `no-store`: a share may be removed at any moment, so no cache may keep the response.
pub(crate) fn uncached(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
