//! Shows the caller's tier.

use axum::extract::State;
use service::{ApiError, Data, Permit};

use super::rules::{Held, Tier};
use crate::{App, operations};

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<Held>, ApiError> {
    let tier = highest(&app, &permit, None).await?;
    Ok(Data(Held { tier }))
}

/// Finds the highest tier that the caller holds, from the top down; `agent` is what is already known about the middle
/// one. The permit already implies the lowest.
pub(crate) async fn highest(app: &App, permit: &Permit, agent: Option<bool>) -> Result<Tier, ApiError> {
    // An administrator is also an agent, so a caller who is not an agent is not an administrator.
    if agent == Some(false) {
        return Ok(Tier::Member);
    }
    if app.permits.probe(permit, &operations::TIER_ADMIN).await? {
        return Ok(Tier::Admin);
    }
    let editor = match agent {
        Some(known) => known,
        None => app.permits.probe(permit, &operations::TIER_EDITOR).await?,
    };
    Ok(if editor { Tier::Editor } else { Tier::Member })
}
