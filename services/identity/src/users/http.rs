//! `/internal/identity/users…`, the reads.

use axum::extract::State;
use service::{ApiError, Data, Insider, Operator, PathParams, RawBody, Reader};

use super::rules::{DisplayEntry, LookupRequest, MAX_LOOK_AGE_SECONDS, SubjectState, User};
use super::store;
use crate::App;

/// One record, for the subject's own bearer or an internal caller.
pub(crate) async fn one(
    State(app): State<App>,
    reader: Reader,
    path: PathParams,
) -> Result<Data<User>, ApiError> {
    let unknown = || ApiError::NotFound("user".into());
    let subject = path.subject("kcSub").ok_or_else(unknown)?;
    reader.of_itself(&subject)?;
    store::find(&app.core.pool, &subject).await?.map(Data).ok_or_else(unknown)
}

/// A subject's state, for the operator's credential. authz reads the facts view instead, under the same rule: without a
/// recent look at the provider there is no answer.
pub(crate) async fn state(
    State(app): State<App>,
    _operator: Operator,
    path: PathParams,
) -> Result<Data<SubjectState>, ApiError> {
    let subject = path.subject("kcSub").ok_or(ApiError::NotFound("user".into()))?;
    let state = store::state(&app.core.pool, &subject, MAX_LOOK_AGE_SECONDS).await?;
    state.map(Data).ok_or_else(|| ApiError::unavailable("idp"))
}

/// Display data of many subjects; unknown ones are omitted.
pub(crate) async fn lookup(
    State(app): State<App>,
    _insider: Insider,
    body: RawBody,
) -> Result<Data<Vec<DisplayEntry>>, ApiError> {
    let LookupRequest(subjects) = body.parse()?;
    Ok(Data(store::display(&app.core.pool, &subjects).await?))
}
