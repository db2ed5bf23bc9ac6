//! Lists documents; a list never holds their text.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use service::clients::org::MemberContext;
use service::query::both;
use service::{ApiError, Data, Permit, Query};

use super::rules::{Looker, MAX_SEARCH, View};
use super::store::{self, Selection};
use crate::App;

pub(crate) async fn list(State(app): State<App>, permit: Permit, query: Query) -> Result<Response, ApiError> {
    let words = both(query.word("view", View::WORDS, View::Mine), query.text("q", MAX_SEARCH));
    let ((view, search), page) = both(words, query.page())?;
    let member = place(&app, &permit, view).await?;
    let looker = Looker { subject: &permit.subject, member: member.as_ref(), manages: view.is_managers() };
    let found = store::list(&app.core.pool, &permit, &Selection { view, search, looker }, page).await?;
    let mut response = Data(found).into_response();
    // What is shared may be unshared the next moment: no answer is kept on the way.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The caller's place in the company, where the view needs it: an owner is known by the subject alone.
async fn place(app: &App, permit: &Permit, view: View) -> Result<Option<MemberContext>, ApiError> {
    match view {
        View::Mine | View::Trash => Ok(None),
        View::Shared => app.org.member_context(permit).await.map(Some),
        View::All | View::TrashAll => app.org.member_context_if_any(permit).await,
    }
}
