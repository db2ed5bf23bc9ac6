//! Reads and changes a company's rules.

use axum::extract::State;
use service::{ApiError, Body, Data, Permit, changes};

use super::rules::{Change, Settings};
use super::store;
use crate::App;

pub(crate) async fn read(State(app): State<App>, permit: Permit) -> Result<Data<Settings>, ApiError> {
    let rules = store::find(&app.core.pool, &permit).await?;
    Ok(Data(Settings { company_id: permit.company, rules }))
}

pub(crate) async fn update(
    State(app): State<App>,
    permit: Permit,
    Body(change): Body<Change>,
) -> Result<Data<Settings>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let before = store::lock(&mut tx).await?;
    let rules = change.apply(before);
    let changed = changes(Some(&before), &rules)?;
    if changed.is_empty() {
        tx.unchanged().await?;
    } else {
        store::save(&mut tx, rules).await?;
        tx.commit("settings.updated", format!("settings:{}", permit.company), changed).await?;
    }
    Ok(Data(Settings { company_id: permit.company, rules }))
}
