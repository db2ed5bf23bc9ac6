//! `POST /internal/identity/users/{kcSub}/look`, with the operator's credential.

use axum::extract::State;
use service::{ApiError, Data, Operator, PathParams};

use crate::App;
use crate::users::rules::User;
use crate::users::store;

/// Looks at one account now, so that a change at the provider takes effect with the next decision and not with the next
/// look.
pub(crate) async fn look(
    State(app): State<App>,
    _operator: Operator,
    path: PathParams,
) -> Result<Data<User>, ApiError> {
    let unknown = || ApiError::NotFound("user".into());
    let subject = path.subject("kcSub").ok_or_else(unknown)?;
    if store::find(&app.core.pool, &subject).await?.is_none() {
        return Err(unknown());
    }
    super::at(&app, &subject).await?;
    store::find(&app.core.pool, &subject).await?.map(Data).ok_or_else(unknown)
}
