//! `/internal/org/companies/{companyId}/members…`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use contract::id::CompanyId;
use contract::page::PageRequest;
use http::{HeaderName, HeaderValue};
use service::{ApiError, Asker, Correlation, Data, PathParams, Query, Reader};

use super::rules::{MAX_SEARCH, MemberContext, Membership, Search};
use super::{guard, store};
use crate::App;

/// The header of a search that found more matches than it counts and shows.
const TRUNCATED: HeaderName = HeaderName::from_static("x-result-truncated");

/// Lists a page of the company's active members; `q` searches their names and addresses.
pub(crate) async fn members(
    State(app): State<App>,
    reader: Reader,
    Correlation(correlation): Correlation,
    path: PathParams,
    query: Query,
) -> Result<Response, ApiError> {
    let company = path.id("companyId")?;
    let asked = asked(&query);
    let is_brief = asked.as_ref().is_ok_and(|(search, page)| search.is_brief(*page));
    let limit = if is_brief { &app.core.brief_reads } else { &app.core.read_limit };
    let _read = guard::enter(&app, limit, &reader, company, &correlation).await?;
    let (search, page) = asked?;
    let (found, is_truncated) = store::page(&app, company, &search, page).await?;
    let mut response = Data(found).into_response();
    if is_truncated {
        response.headers_mut().insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn asked(query: &Query) -> Result<(Search, PageRequest), ApiError> {
    service::query::both(search(query), query.page())
}

fn search(query: &Query) -> Result<Search, ApiError> {
    let text = query.text("q", MAX_SEARCH)?.unwrap_or_default();
    if text.chars().any(char::is_control) {
        return Err(ApiError::validation_field("q", "control", "no control characters"));
    }
    Ok(Search::of(text))
}

/// Tells whether a subject is a member. As the module contract requires, no credential is needed; the response holds no
/// name.
pub(crate) async fn membership(
    State(app): State<App>,
    Asker(asker): Asker,
    path: PathParams,
) -> Result<Data<Membership>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let _read = match &asker {
        Some(subject) => Some(app.core.brief_reads.enter(subject).await?),
        None => None,
    };
    // A malformed subject belongs to no member.
    let Some(subject) = path.subject("kcSub") else { return Ok(Data(Membership::default())) };
    Ok(Data(store::membership(&app.core.reads, company, &subject).await?))
}

/// Returns a subject's membership, positions and groups in the company, to a module that the subject calls or to the
/// subject itself.
pub(crate) async fn context(
    State(app): State<App>,
    reader: Reader,
    path: PathParams,
) -> Result<Data<MemberContext>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let Some(subject) = path.subject("kcSub") else { return Ok(Data(MemberContext::default())) };
    reader.of_itself(&subject)?;
    Ok(Data(store::context(&app.core.reads, company, &subject).await?))
}
