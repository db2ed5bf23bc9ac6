//! Shows the entries of a submission.

use axum::extract::State;
use service::refusal::not_yours;
use service::{ApiError, Data, Permit};

use super::rules::Held;
use super::store;
use crate::submissions::http::member_if_any;
use crate::submissions::rules::Who;
use crate::{App, operations, submissions};

pub(crate) async fn list(State(app): State<App>, permit: Permit) -> Result<Data<Held>, ApiError> {
    let id = permit.path.id("submissionId")?;
    let member = member_if_any(&app, &permit).await?;
    let found = submissions::store::find(&app.core.pool, &permit, id).await?;
    let submission = found.ok_or(ApiError::NotFound("submission".into()))?;
    let who = Who { subject: permit.subject.clone(), member, approver: false };
    // A caller who may read or decide any submission may also read its entries; every approver is a viewer.
    if !submission.concerns(&who) && !app.permits.allows(&permit, &operations::SUBMISSIONS_READ_ALL).await? {
        return Err(not_yours("NOT_READER", "the submission is not the caller's to read"));
    }
    Ok(Data(Held::of(store::list(&app.core.reads, &permit, id).await?)))
}
