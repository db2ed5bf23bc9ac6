//! Reads and changes a company's rules.

use axum::extract::State;
use serde_json::{Map, Value};
use service::{ApiError, AuditEvent, CompanyCall, Data, Permit, RawBody, changes};

use super::rules::{Change, Settings, TimeRules};
use super::store;
use crate::{App, features};

pub(crate) async fn read(State(app): State<App>, call: CompanyCall) -> Result<Data<Settings>, ApiError> {
    let permit = call.permit(&app.permits, &features::SETTINGS_READ).await?;
    let stored = store::find(&app.core.pool, &permit).await?;
    let rules = stored.unwrap_or(TimeRules::DEFAULT);
    Ok(Data(Settings { company_id: permit.company, rules }))
}

pub(crate) async fn update(
    State(app): State<App>,
    call: CompanyCall,
    body: RawBody,
) -> Result<Data<Settings>, ApiError> {
    let permit = call.permit(&app.permits, &features::SETTINGS_UPDATE).await?;
    let change: Change = body.parse()?;
    let mut tx = app.core.begin(&permit.subject, &permit.correlation).await?;
    let before = store::lock(&mut tx, &permit).await?;
    let rules = change.apply(before);
    let changed = changes(Some(&before), &rules)?;
    if changed.is_empty() {
        tx.unchanged().await?;
    } else {
        store::save(&mut tx, &permit, rules).await?;
        tx.commit(&updated(&permit, changed)).await?;
    }
    Ok(Data(Settings { company_id: permit.company, rules }))
}

fn updated(permit: &Permit, changed: Map<String, Value>) -> AuditEvent {
    AuditEvent {
        company: Some(permit.company),
        action: "settings.updated",
        subject: format!("settings:{}", permit.company),
        payload: Value::Object(changed),
    }
}
