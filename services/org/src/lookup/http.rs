//! `/internal/org/companies/{companyId}/lookup` and `…/assignables/…`.

use axum::extract::State;
use contract::id::CompanyId;
use service::{ApiError, Correlation, Data, PathParams, RawBody, Reader};

use super::rules::{AssignableGroup, AssignablePosition, Found, Wanted};
use super::store;
use crate::App;
use crate::directory::guard::admit;

/// Returns the members, positions and groups with the requested ids. Omits unknown ids and those of other companies.
pub(crate) async fn lookup(
    State(app): State<App>,
    reader: Reader,
    Correlation(correlation): Correlation,
    path: PathParams,
    body: RawBody,
) -> Result<Data<Found>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let _turn = app.core.read_limit.enter_as(&reader).await?;
    admit(&app, &reader, company, &correlation).await?;
    let wanted: Wanted = body.parse()?;
    let pool = &app.core.pool;
    let (members, positions, groups) = tokio::try_join!(
        store::members(pool, company, &wanted.members),
        store::positions(pool, company, &wanted.positions, wanted.with_logins),
        store::groups(pool, company, &wanted.groups, wanted.with_logins),
    )?;
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
    let _turn = app.core.read_limit.enter_as(&reader).await?;
    admit(&app, &reader, company, &correlation).await?;
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
    let _turn = app.core.read_limit.enter_as(&reader).await?;
    admit(&app, &reader, company, &correlation).await?;
    Ok(Data(store::assignable_groups(&app.core.pool, company).await?))
}
