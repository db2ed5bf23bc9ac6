//! Lists tickets.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use service::clients::org::MemberContext;
use service::query::both;
use service::{ApiError, Data, Permit, Query};

use super::rules::{MAX_ROWS, Status, Ticket, Tier, View};
use super::store::{self, Selection};
use crate::{App, operations};

/// Tells that there were more rows than a list may have.
const TRUNCATED: HeaderName = HeaderName::from_static("x-result-truncated");

pub(crate) async fn list(State(app): State<App>, permit: Permit, query: Query) -> Result<Response, ApiError> {
    let (view, status) =
        both(query.word("view", View::WORDS, View::Mine), query.optional_word("status", Status::WORDS))?;
    let caller = place(&app, &permit, view).await?;
    let selection = Selection { view, status, caller: caller.as_ref() };
    let mut found = store::list(&app.core.pool, &permit, &selection).await?;
    let truncated = found.len() > MAX_ROWS;
    found.truncate(MAX_ROWS);
    // An empty list shows no tier, so none is asked for.
    let tier = if found.is_empty() { Tier::Member } else { tier(&app, &permit, view).await? };
    let tickets = found.into_iter().map(|ticket| ticket.seen_by(caller.as_ref(), tier));
    Ok(answer(tickets.collect(), truncated))
}

/// The caller's place in the company. An operator who is no member may see all tickets and is party to none.
async fn place(app: &App, permit: &Permit, view: View) -> Result<Option<MemberContext>, ApiError> {
    match view {
        View::Mine => app.org.member_context(permit).await.map(Some),
        View::All => app.org.member_context_if_any(permit).await,
    }
}

/// The highest tier that the caller holds, asked from the top. The permit tells the lowest that is sure.
async fn tier(app: &App, permit: &Permit, view: View) -> Result<Tier, ApiError> {
    if app.permits.probe(permit, &operations::TIER_ADMIN).await? {
        return Ok(Tier::Admin);
    }
    let editor = view == View::All || app.permits.probe(permit, &operations::TIER_EDITOR).await?;
    Ok(if editor { Tier::Editor } else { Tier::Member })
}

fn answer(tickets: Vec<Ticket>, truncated: bool) -> Response {
    let mut response = Data(tickets).into_response();
    if truncated {
        response.headers_mut().insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    response
}
