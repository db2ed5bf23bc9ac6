//! `/internal/org/admin/units`.

use axum::extract::State;
use contract::CorrelationId;
use contract::id::UnitId;
use service::caller::Correlation;
use service::{ApiError, AuditEvent, Created, Data, LimitedRead, PathParams, RawBody, Superadmin, changes};

use super::rules::{NewUnit, OrgUnit, Place, Placed};
use super::store;
use crate::App;
use crate::default_grants;
use crate::events::event;

/// Creates a company, or a unit below another unit.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<OrgUnit>, ApiError> {
    let new: NewUnit = body.parse()?;
    let placed = match new.place()? {
        Place::Root => create_company(&app, &caller, &id, new).await?,
        Place::Below(parent) => create_below(&app, &caller, &id, new, parent).await?,
    };
    Ok(Created(placed.unit))
}

/// Returns a unit.
pub(crate) async fn one(
    State(app): State<App>,
    _caller: Superadmin,
    path: PathParams,
) -> Result<Data<OrgUnit>, ApiError> {
    let found = store::find(&app.core.reads, path.id("id")?).await?;
    found.map(Data).ok_or(ApiError::NotFound("unit".into()))
}

/// Lists a unit and all units below it.
pub(crate) async fn subtree(
    State(app): State<App>,
    _caller: LimitedRead<Superadmin>,
    path: PathParams,
) -> Result<Data<Vec<OrgUnit>>, ApiError> {
    let units = store::subtree(&app.core.reads, path.id("id")?).await?;
    if units.is_empty() { Err(ApiError::NotFound("unit".into())) } else { Ok(Data(units)) }
}

async fn create_company(
    app: &App,
    caller: &Superadmin,
    id: &CorrelationId,
    new: NewUnit,
) -> Result<Placed, ApiError> {
    let placed = new.into_company();
    let mut tx = caller.begin(app, id).await?;
    default_grants::lock(tx.conn()).await?;
    store::insert(tx.conn(), &placed).await?;
    default_grants::write(tx.conn(), placed.company).await?;
    tx.commit(&created(&placed)?).await?;
    Ok(placed)
}

async fn create_below(
    app: &App,
    caller: &Superadmin,
    id: &CorrelationId,
    new: NewUnit,
    parent: UnitId,
) -> Result<Placed, ApiError> {
    let mut tx = caller.begin(app, id).await?;
    let allowed_parents = store::allowed_parents(tx.conn(), &new.type_key).await?;
    let parent = store::parent(tx.conn(), parent).await?;
    let placed = new.below(parent.as_ref(), allowed_parents.as_deref())?;
    store::insert(tx.conn(), &placed).await?;
    tx.commit(&created(&placed)?).await?;
    Ok(placed)
}

fn created(placed: &Placed) -> Result<AuditEvent, ApiError> {
    let unit = &placed.unit;
    Ok(event(placed.company, "unit.created", "unit", unit.id, changes(None, unit)?))
}
