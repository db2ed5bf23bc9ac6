//! Lists documents; a list never holds their text.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use contract::page::Page;
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use service::clients::org::MemberContext;
use service::query::both;
use service::{ApiError, CompanyCall, Data, Feature, Permit, Query};

use super::rules::{Looker, MAX_SEARCH, VIEWS, View};
use super::store::{self, Selection};
use crate::{App, features};

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Response, ApiError> {
    let permit = call.permit(&app.permits, feature(&query)).await?;
    let words = both(query.word("view", VIEWS, View::Mine), query.text("q", MAX_SEARCH));
    let ((view, search), page) = both(words, query.page())?;
    let member = place(&app, &permit, view).await?;
    let looker = Looker { subject: &permit.subject, member: member.as_ref(), manages: view.is_managers() };
    let found = store::list(&app.core.pool, &permit, &Selection { view, search, looker }, page).await?;
    let items = found.items.into_iter().map(|document| document.seen_by(&looker)).collect();
    let mut response = Data(Page::new(page, items, found.total)).into_response();
    // What is shared may be unshared the next moment: no answer is kept on the way.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The view decides which decision is asked, so this one word is read before it; what is wrong with the query is told
/// only to whoever passes.
fn feature(query: &Query) -> &'static Feature {
    let managers = query
        .get("view")
        .is_some_and(|word| VIEWS.iter().any(|(known, view)| *known == word && view.is_managers()));
    if managers { &features::DOCUMENTS_LIST_ALL } else { &features::DOCUMENTS_LIST }
}

/// The caller's place in the company, where the view needs it: an owner is known by the subject alone.
async fn place(app: &App, permit: &Permit, view: View) -> Result<Option<MemberContext>, ApiError> {
    let (company, subject, correlation) = (permit.company, &permit.subject, &permit.correlation);
    match view {
        View::Mine | View::Trash => Ok(None),
        View::Shared => app.org.member_context(company, subject, correlation).await.map(Some),
        View::All | View::TrashAll => app.org.member_context_if_any(company, subject, correlation).await,
    }
}
