//! Shows a week of the company.

use axum::extract::State;
use contract::page::Page;
use service::{ApiError, CompanyCall, Data, Query};

use super::rules::{OverviewRow, rows};
use super::store;
use crate::weeks::rules::{Day, Week};
use crate::{App, features};

pub(crate) async fn show(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Data<Page<OverviewRow>>, ApiError> {
    let permit = call.permit(&app.permits, &features::WEEKS_READ).await?;
    let (week, page) = service::query::both(week_of(&call), query.page())?;
    let members = app.org.directory(permit.company, page, &permit.correlation).await?;
    let ids: Vec<_> = members.items.iter().map(|member| member.id).collect();
    let weeks = store::weeks(&app.core.pool, &permit, week, &ids).await?;
    Ok(Data(Page::new(page, rows(members.items, &weeks), members.total)))
}

/// The week of the path.
fn week_of(call: &CompanyCall) -> Result<Week, ApiError> {
    let wrong = |rule, message: &str| ApiError::validation_field("weekStart", rule, message);
    let day = Day::parse(call.path.text("weekStart")).ok_or_else(|| wrong("date", "a date, YYYY-MM-DD"))?;
    Week::starting(day).ok_or_else(|| wrong("monday", "a Monday"))
}
