//! Lists the positions and groups of org that a ticket can be assigned to.

use axum::extract::State;
use service::clients::org::{AssignableGroup, AssignablePosition};
use service::{ApiError, Data, Permit};

use crate::App;

pub(crate) async fn positions(
    State(app): State<App>,
    permit: Permit,
) -> Result<Data<Vec<AssignablePosition>>, ApiError> {
    app.org.assignable_positions(permit.company, &permit.correlation).await.map(Data)
}

pub(crate) async fn groups(
    State(app): State<App>,
    permit: Permit,
) -> Result<Data<Vec<AssignableGroup>>, ApiError> {
    app.org.assignable_groups(permit.company, &permit.correlation).await.map(Data)
}
