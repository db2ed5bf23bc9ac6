//! `/internal/org/admin/companies/{companyId}/positions`.

use axum::extract::State;
use contract::id::CompanyId;
use contract::page::Page;
use service::{
    ApiError, Correlation, Created, Data, LimitedRead, PathParams, Query, RawBody, Superadmin, changes,
};

use super::rules::{NewPosition, OrgPosition, OrgPositionWithHolder};
use super::store;
use crate::App;
use crate::events::event;
use crate::units::store::company_exists;

/// Lists a page of a company's positions.
pub(crate) async fn list(
    State(app): State<App>,
    _caller: LimitedRead<Superadmin>,
    path: PathParams,
    query: Query,
) -> Result<Data<Page<OrgPositionWithHolder>>, ApiError> {
    let company = path.id("companyId")?;
    Ok(Data(store::page(&app.core.pool, company, query.page()?).await?))
}

/// Creates a vacant position.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<OrgPosition>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let position = body.parse::<NewPosition>()?.of(company);
    let mut tx = caller.begin(&app, &id).await?;
    if !company_exists(tx.conn(), company).await? {
        return Err(ApiError::unprocessable_field("companyId", "unknown", "no such company"));
    }
    if !store::insert(tx.conn(), &position).await? {
        return Err(ApiError::unprocessable_field("orgUnitId", "unknown", "no such unit in this company"));
    }
    let created = changes(None, &position)?;
    tx.commit(&event(company, "position.created", "position", position.id, created)).await?;
    Ok(Created(position))
}
