//! Shows what a submission held.

use axum::extract::State;
use service::{ApiError, CompanyCall, Data};

use super::rules::Held;
use super::store;
use crate::refusal::not_yours;
use crate::submissions::http::member_if_any;
use crate::submissions::rules::Who;
use crate::weeks::rules::SubmissionId;
use crate::{App, features, submissions};

pub(crate) async fn list(State(app): State<App>, call: CompanyCall) -> Result<Data<Held>, ApiError> {
    let id: SubmissionId = call.path.id("submissionId")?;
    let permit = call.permit(&app.permits, &features::HELD_READ).await?;
    let member = member_if_any(&app, &permit).await?;
    let found = submissions::store::find(&app.core.pool, &permit, id).await?;
    let submission = found.ok_or(ApiError::NotFound("submission".into()))?;
    let who = Who { subject: permit.subject.clone(), member, approver: false };
    // Whoever may read or decide any submission may read what it held; every approver is a viewer.
    let concerned =
        submission.concerns(&who) || call.allows(&app.permits, &features::SUBMISSIONS_READ_ALL).await?;
    if !concerned {
        return Err(not_yours("NOT_READER", "the submission is not the caller's to read"));
    }
    Ok(Data(Held::of(store::list(&app.core.pool, &permit, id).await?)))
}
