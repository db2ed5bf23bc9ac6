//! `/internal/org/companies/{companyId}/admins/{kcSub}` and `/internal/org/units/{id}/activity`. Both require the
//! operator's credential.

use axum::extract::State;
use contract::id::{CompanyId, UnitId};
use serde_json::{Map, Value, json};
use service::caller::Correlation;
use service::{ApiError, Data, Operator, PathParams, RawBody};

use super::rules::{ActivityChange, AdminChange, CompanyAdmin};
use super::store;
use crate::events::event;
use crate::units::rules::OrgUnit;
use crate::units::store::{company_exists, find, share_company};
use crate::{App, default_grants};

/// Grants or revokes the company role `admin`. Only a grant requires that identity knows the subject.
pub(crate) async fn set_admin(
    State(app): State<App>,
    _operator: Operator,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<CompanyAdmin>, ApiError> {
    let company: CompanyId = path.id("companyId")?;
    let unknown = || ApiError::NotFound("user".into());
    let subject = path.subject("kcSub").ok_or_else(unknown)?;
    let change: AdminChange = body.parse()?;
    if change.is_admin && !app.identity.knows(&subject, &id).await? {
        return Err(unknown());
    }
    let mut tx = app.core.begin_as(&change.operator.actor(), Some(id.as_str())).await?;
    share_company(tx.conn(), company).await?;
    if !company_exists(tx.conn(), company).await? {
        return Err(ApiError::NotFound("company".into()));
    }
    let (action, changed) = if change.is_admin {
        ("company.admin_added", store::add_admin(tx.conn(), company, &subject).await?)
    } else {
        ("company.admin_removed", store::remove_admin(tx.conn(), company, &subject).await?)
    };
    if changed {
        let payload = told("isAdmin", change.is_admin, json!({ "kcSub": subject }));
        tx.commit(&event(company, action, "company", company, payload)).await?;
    } else {
        tx.unchanged().await?;
    }
    let kc_sub = subject.to_string();
    Ok(Data(CompanyAdmin { company_id: company, kc_sub, is_admin: change.is_admin, changed }))
}

/// Activates or deactivates a company or unit. Activating a company also writes the default grants of the modules that
/// were enabled while it was inactive.
pub(crate) async fn set_activity(
    State(app): State<App>,
    _operator: Operator,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<OrgUnit>, ApiError> {
    let unit: UnitId = path.id("id")?;
    let change: ActivityChange = body.parse()?;
    let unknown = || ApiError::NotFound("unit".into());
    let mut tx = app.core.begin_as(&change.operator.actor(), Some(id.as_str())).await?;
    default_grants::lock(tx.conn()).await?;
    let company = store::hold_unit(tx.conn(), unit).await?.ok_or_else(unknown)?;
    if store::set_active(tx.conn(), unit, change.is_active).await? {
        if change.is_active && unit.as_uuid() == company.as_uuid() {
            default_grants::write(tx.conn(), company).await?;
        }
        let action = if change.is_active { "unit.activated" } else { "unit.deactivated" };
        let payload = told("isActive", change.is_active, Value::Null);
        tx.commit(&event(company, action, "unit", unit, payload)).await?;
    } else {
        tx.unchanged().await?;
    }
    find(&app.core.pool, unit).await?.map(Data).ok_or_else(unknown)
}

/// The audit payload of a changed flag, with the fields of `more`.
fn told(flag: &str, to: bool, more: Value) -> Map<String, Value> {
    let mut payload = if let Value::Object(more) = more { more } else { Map::new() };
    payload.insert(flag.to_owned(), json!({ "from": !to, "to": to }));
    payload
}
