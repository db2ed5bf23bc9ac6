//! `/internal/org/admin/companies/{companyId}/groups`.

use axum::extract::State;
use contract::id::CompanyId;
use contract::page::Page;
use service::{
    ApiError, Correlation, Created, Data, LimitedRead, PathParams, Query, RawBody, Superadmin, changes,
};

use super::rules::{NewGroup, OrgGroup, OrgGroupWithMemberCount};
use super::store;
use crate::App;
use crate::events::event;
use crate::units::store::company_exists;

/// Lists a page of a company's groups.
pub(crate) async fn list(
    State(app): State<App>,
    _caller: LimitedRead<Superadmin>,
    path: PathParams,
    query: Query,
) -> Result<Data<Page<OrgGroupWithMemberCount>>, ApiError> {
    let company = path.id("companyId")?;
    Ok(Data(store::page(&app.core.pool, company, query.page()?).await?))
}

/// Creates an empty group that the platform manages. A taken code or an unknown company is 400, because the
/// specification lists neither 404 nor 409 for this route.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Superadmin,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<OrgGroup>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let group = body.parse::<NewGroup>()?.of(company);
    let mut tx = caller.begin(&app, &id).await?;
    if !company_exists(tx.conn(), company).await? {
        return Err(ApiError::validation_field("companyId", "unknown", "no such company"));
    }
    store::insert(tx.conn(), &group).await?;
    let created = changes(None, &group)?;
    tx.commit(&event(company, "group.created", "group", group.id, created)).await?;
    Ok(Created(group))
}
