//! Reads and changes a company's rules.

use axum::extract::State;
use service::{ApiError, Body, CompanyTx, Data, Permit};

use super::rules::{Change, Settings};
use super::store;
use crate::App;

pub(crate) async fn read(State(app): State<App>, permit: Permit) -> Result<Data<Settings>, ApiError> {
    let rules = store::find(&app.core.reads, &permit).await?;
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
    let save = async |tx: &mut CompanyTx| store::save(tx, rules).await;
    tx.commit_change(&before, &rules, save, "settings.updated", format!("settings:{}", permit.company))
        .await?;
    Ok(Data(Settings { company_id: permit.company, rules }))
}
