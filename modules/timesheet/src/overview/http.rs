//! Shows a week of all members of the company.

use axum::extract::State;
use contract::Day;
use contract::page::Page;
use service::query::both;
use service::{ApiError, Data, LimitedRead, Permit, Query};

use super::rules::{OverviewRow, rows};
use super::store;
use crate::App;
use crate::weeks::rules::Week;

pub(crate) async fn show(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Data<Page<OverviewRow>>, ApiError> {
    let (week, page) = both(week_of(&permit), query.page())?;
    let members = app.org.directory(permit.company, page, &permit.correlation).await?;
    let ids: Vec<_> = members.items.iter().map(|member| member.id).collect();
    let weeks = store::weeks(&app.core.reads, &permit, week, &ids).await?;
    Ok(Data(Page::new(page, rows(members.items, &weeks), members.total)))
}

/// The week in the path.
fn week_of(permit: &Permit) -> Result<Week, ApiError> {
    let wrong = || ApiError::validation_field("weekStart", "date", Day::EXPECTED);
    Week::named("weekStart", Day::parse(permit.path.text("weekStart")).ok_or_else(wrong)?)
}
