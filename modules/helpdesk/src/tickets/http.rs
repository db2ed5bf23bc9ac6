//! Lists tickets.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use service::clients::org::MemberContext;
use service::query::both;
use service::{ApiError, CompanyCall, Data, Feature, Permit, Query};

use super::rules::{MAX_ROWS, STATUSES, Ticket, Tier, VIEWS, View};
use super::store::{self, Selection};
use crate::{App, features};

/// Tells that there were more rows than a list may have.
const TRUNCATED: HeaderName = HeaderName::from_static("x-result-truncated");

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Response, ApiError> {
    let permit = call.permit(&app.permits, feature(&query)).await?;
    let (view, status) = both(query.word("view", VIEWS, View::Mine), query.word("status", STATUSES, None))?;
    let caller = place(&app, &permit, view).await?;
    let selection = Selection { view, status, caller: caller.as_ref() };
    let mut found = store::list(&app.core.pool, &permit, &selection).await?;
    let truncated = found.len() > MAX_ROWS;
    found.truncate(MAX_ROWS);
    // An empty list shows no tier, so none is asked for.
    let tier = if found.is_empty() { Tier::Member } else { tier(&app, &call, view).await? };
    let tickets = found.into_iter().map(|ticket| ticket.seen_by(caller.as_ref(), tier));
    Ok(answer(tickets.collect(), truncated))
}

/// The view decides which decision is asked, so this one word is read before it; what is wrong with the query is told
/// only to whoever passes.
fn feature(query: &Query) -> &'static Feature {
    if query.get("view") == Some("all") { &features::TICKETS_READ_ALL } else { &features::TICKETS_READ }
}

/// The caller's place in the company. An operator who is no member may see all tickets and is party to none.
async fn place(app: &App, permit: &Permit, view: View) -> Result<Option<MemberContext>, ApiError> {
    let (company, subject, correlation) = (permit.company, &permit.subject, &permit.correlation);
    match view {
        View::Mine => app.org.member_context(company, subject, correlation).await.map(Some),
        View::All => app.org.member_context_if_any(company, subject, correlation).await,
    }
}

/// The highest tier that the caller holds, asked from the top. The permit tells the lowest that is sure.
async fn tier(app: &App, call: &CompanyCall, view: View) -> Result<Tier, ApiError> {
    if call.holds(&app.permits, &features::TIER_ADMIN).await? {
        return Ok(Tier::Admin);
    }
    let editor = view == View::All || call.holds(&app.permits, &features::TIER_EDITOR).await?;
    Ok(if editor { Tier::Editor } else { Tier::Member })
}

fn answer(tickets: Vec<Ticket>, truncated: bool) -> Response {
    let mut response = Data(tickets).into_response();
    if truncated {
        response.headers_mut().insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    response
}
