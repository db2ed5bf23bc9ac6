//! Approves many submissions. Each is decided separately, with its own audit row: a refused one has its error in the
//! response and does not affect the others. The batch fails only when a dependency that all of them need does not
//! answer; submissions approved by then stay approved.

use axum::extract::State;
use contract::envelope::ErrorContent;
use contract::fields::{Fields, FromBody};
use contract::id::parse_uuid;
use serde::Serialize;
use serde_json::Value;
use service::{ApiError, Body, Data, Permit};

use super::decide::{Decider, Of, moved};
use super::rules::{Move, Shown};
use crate::App;
use crate::weeks::rules::SubmissionId;

/// Most submissions in one batch: a page of the list.
const MAX_IDS: usize = 100;

/// The body of a batch.
pub(crate) struct BatchBody(Vec<SubmissionId>);

impl FromBody for BatchBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        const NAME: &str = "submissionIds";
        let Some(value) = fields.raw(NAME) else { return fields.refuse(NAME, "required", "required") };
        let Value::Array(items) = value else { return fields.refuse(NAME, "type", "a list") };
        if !(1..=MAX_IDS).contains(&items.len()) {
            return fields.refuse(NAME, "length", format!("1 to {MAX_IDS} items"));
        }
        let mut ids = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match item.as_str().and_then(parse_uuid).map(SubmissionId::from) {
                None => fields.refuse(&format!("{NAME}[{index}]"), "uuid", "a UUID")?,
                Some(id) if ids.contains(&id) => {
                    fields.refuse(&format!("{NAME}[{index}]"), "duplicate", "each submission once")?;
                }
                Some(id) => ids.push(id),
            }
        }
        Some(Self(ids))
    }
}

/// The outcome of each submission, in the order of the request.
#[derive(Serialize)]
pub(crate) struct Batch {
    items: Vec<Outcome>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    submission_id: SubmissionId,
    approved: bool,
    submission: Option<Shown>,
    error: Option<ErrorContent>,
}

pub(crate) async fn approve(
    State(app): State<App>,
    permit: Permit,
    Body(BatchBody(ids)): Body<BatchBody>,
) -> Result<Data<Batch>, ApiError> {
    let mut decider = Decider::of(&app, &permit, Of::Many).await?;
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        match moved(&app, &permit, &mut decider, id, &Move::Approve).await {
            // A dependency that does not answer now would fail the rest as well.
            Err(error) if error.parts().status.is_server_error() => return Err(error),
            done => items.push(outcome(id, done)),
        }
    }
    Ok(Data(Batch { items }))
}

fn outcome(submission_id: SubmissionId, done: Result<Shown, ApiError>) -> Outcome {
    match done {
        Ok(shown) => Outcome { submission_id, approved: true, submission: Some(shown), error: None },
        Err(error) => {
            let error = Some(service::reply::body(&error).error);
            Outcome { submission_id, approved: false, submission: None, error }
        }
    }
}
