//! `/internal/org/companies/{companyId}/lookup` and `…/assignables/…`.

use axum::extract::State;
use contract::id::CompanyId;
use service::{ApiError, Correlation, Data, PathParams, RawBody, Reader};

use super::rules::{AssignableGroup, AssignablePosition, Found, Wanted};
use super::store;
use crate::App;
use crate::directory::guard::enter;

/// Returns the members, positions and groups with the requested ids. Omits unknown ids and those of other companies.
pub(crate) async fn lookup(
    State(app): State<App>,
    reader: Reader,
    Correlation(correlation): Correlation,
    path: PathParams,
    body: RawBody,
) -> Result<Data<Found>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let _read = enter(&app, &app.core.read_limit, &reader, company, &correlation).await?;
    let wanted: Wanted = body.parse()?;
    // One connection for one turn: with one for each statement, two look-ups would occupy every connection.
    let mut conn = app.core.pool.acquire().await?;
    let members = store::members(&mut conn, company, &wanted.members).await?;
    let positions = store::positions(&mut conn, company, &wanted.positions, wanted.with_logins).await?;
    let groups = store::groups(&mut conn, company, &wanted.groups, wanted.with_logins).await?;
    Ok(Data(Found { members, positions, groups }))
}

/// Lists the positions to which a module can assign something.
pub(crate) async fn assignable_positions(
    State(app): State<App>,
    reader: Reader,
    Correlation(correlation): Correlation,
    path: PathParams,
) -> Result<Data<Vec<AssignablePosition>>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let _read = enter(&app, &app.core.read_limit, &reader, company, &correlation).await?;
    Ok(Data(store::assignable_positions(&app.core.pool, company).await?))
}

/// Lists the groups to which a module can assign something.
pub(crate) async fn assignable_groups(
    State(app): State<App>,
    reader: Reader,
    Correlation(correlation): Correlation,
    path: PathParams,
) -> Result<Data<Vec<AssignableGroup>>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let _read = enter(&app, &app.core.read_limit, &reader, company, &correlation).await?;
    Ok(Data(store::assignable_groups(&app.core.pool, company).await?))
}
