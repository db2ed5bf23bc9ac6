//! Returns a report in the format that the client accepts.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use contract::Principal;
use contract::page::Page;
use http::header::VARY;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::json;
use service::{ApiError, Data, LimitedRead, Permit, Query};

use super::csv::File;
use super::rules::{Asked, MAX_FILE_ROWS, ReportRow, SumRow, named, wants_file};
use super::store;
use crate::App;
use crate::submission_entries::rules::Totals;
use service::refusal::broken;

/// A page of a report, with the sums of the whole report.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    page: Page<ReportRow>,
    totals: Totals,
}

pub(crate) async fn hours(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
    headers: HeaderMap,
) -> Response {
    let mut response = report(&app, &permit, &query, &headers).await.into_response();
    // Errors vary too, since only the file can be too long: a cache must not mix the two formats up.
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    response
}

async fn report(
    app: &App,
    permit: &Permit,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let (asked, page) = service::query::both(Asked::of(query), query.page())?;
    if wants_file(headers) {
        return Ok(file(app, permit, &asked).await?.into_response());
    }
    let mut found = store::sums(&app.core.pool, permit, &asked, page.limit(), page.offset()).await?;
    if found.rows.is_empty() && page.offset() > 0 {
        // A page past the end has no row that carries the total and the sums.
        let first = store::sums(&app.core.pool, permit, &asked, 1, 0).await?;
        found = store::Found { rows: Vec::new(), ..first };
    }
    let items = with_names(app, permit, found.rows).await?;
    Ok(Data(Report { page: Page::new(page, items, found.total), totals: found.totals }).into_response())
}

/// Builds the whole report as a file; a report that is too long is refused, never truncated.
async fn file(app: &App, permit: &Permit, asked: &Asked) -> Result<File, ApiError> {
    let found = store::sums(&app.core.pool, permit, asked, MAX_FILE_ROWS, 0).await?;
    if found.total > MAX_FILE_ROWS {
        let details = json!({ "rows": found.total, "limit": MAX_FILE_ROWS });
        return Err(broken("REPORT_TOO_LONG", "the file would be too long; ask for fewer days", details));
    }
    File::of(asked, &with_names(app, permit, found.rows).await?)
}

/// Adds the names of members; org is asked for each member once.
async fn with_names(app: &App, permit: &Permit, rows: Vec<SumRow>) -> Result<Vec<ReportRow>, ApiError> {
    let members = rows.iter().filter_map(|row| row.member).map(Principal::Member);
    let found = app.org.lookup_all(permit.company, members, &permit.correlation).await?;
    let names = found.members.into_iter().map(|member| (member.id, member.display_name)).collect();
    Ok(rows.into_iter().map(|row| named(row, &names)).collect())
}
