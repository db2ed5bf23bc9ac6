//! Approves, rejects and reverts submissions. Whether the caller may is checked on the row as read. The move is one
//! conditional update on the values that the check used, so of two concurrent moves one wins and the other is checked
//! again.

use axum::extract::State;
use contract::fields::{Fields, FromBody, Text};
use serde_json::json;
use service::{ApiError, Body, Data, Permit, contention};

use super::http::member_if_any;
use super::rules::{Move, Shown, Submission, Who};
use super::store;
use crate::weeks::rules::SubmissionId;
use crate::{App, operations};

/// Longest reason of a rejection, in characters.
const MAX_REASON: usize = 2_000;
/// How often a move that lost a race is checked again.
const MAX_ATTEMPTS: usize = 4;

/// The body of a rejection.
pub(crate) struct RejectBody(String);

impl FromBody for RejectBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.text("reason", Text::prose(1, MAX_REASON)).map(Self)
    }
}

pub(crate) async fn approve(State(app): State<App>, permit: Permit) -> Result<Data<Shown>, ApiError> {
    decided(&app, &permit, Move::Approve).await
}

pub(crate) async fn revert(State(app): State<App>, permit: Permit) -> Result<Data<Shown>, ApiError> {
    decided(&app, &permit, Move::Revert).await
}

pub(crate) async fn reject(
    State(app): State<App>,
    permit: Permit,
    Body(RejectBody(reason)): Body<RejectBody>,
) -> Result<Data<Shown>, ApiError> {
    decided(&app, &permit, Move::Reject(reason)).await
}

async fn decided(app: &App, permit: &Permit, step: Move) -> Result<Data<Shown>, ApiError> {
    let mut decider = Decider::of(app, permit, Of::One).await?;
    moved(app, permit, &mut decider, permit.path.id("submissionId")?, &step).await.map(Data)
}

/// The caller, and what is known about the caller's authority.
pub(super) struct Decider {
    who: Who,
    /// The second decision, if it was already asked; it is asked at most once per request.
    authority: Option<bool>,
    of: Of,
}

/// How many submissions a request moves. Without authority over it, a single submission refuses the request, and one of
/// many is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    One,
    Many,
}

impl Decider {
    pub(super) async fn of(app: &App, permit: &Permit, of: Of) -> Result<Self, ApiError> {
        let member = member_if_any(app, permit).await?;
        let who = Who { subject: permit.subject.clone(), member, approver: false };
        Ok(Self { who, authority: None, of })
    }

    /// The caller's relation to this submission. The second decision is asked only if something depends on it.
    async fn before(&mut self, app: &App, permit: &Permit, found: &Submission) -> Result<&Who, ApiError> {
        if found.needs_authority(&self.who) {
            let authority = match (self.authority, self.of) {
                (Some(known), _) => known,
                (None, Of::One) => app.permits.allows(permit, &operations::DECIDE_ANY).await?,
                (None, Of::Many) => app.permits.probe(permit, &operations::DECIDE_ANY).await?,
            };
            self.authority = Some(authority);
        }
        self.who.approver = found.needs_authority(&self.who) && self.authority == Some(true);
        Ok(&self.who)
    }
}

/// Moves a submission and returns it as the caller sees it.
pub(super) async fn moved(
    app: &App,
    permit: &Permit,
    decider: &mut Decider,
    id: SubmissionId,
    step: &Move,
) -> Result<Shown, ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        let found = store::find(&app.core.pool, permit, id).await?;
        let found = found.ok_or(ApiError::NotFound("submission".into()))?;
        let who = decider.before(app, permit, &found).await?;
        found.judge(step, who)?;
        // A batch moves many submissions, each in its own transaction.
        if let Some(after) = contention::retried(|| written(app, permit, &found, step, who)).await? {
            return Ok(after.shown_to(who));
        }
    }
    Err(ApiError::conflict("the submission is being changed by others; try again"))
}

/// Writes the move and returns the submission; `None` when another request changed it first.
async fn written(
    app: &App,
    permit: &Permit,
    before: &Submission,
    step: &Move,
    who: &Who,
) -> Result<Option<Submission>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let by_assignment = before.is_assigned_to(who).then_some(who.member).flatten();
    let Some(after) = store::settle(&mut tx, before, step, by_assignment).await? else {
        tx.unchanged().await?;
        return Ok(None);
    };
    let (action, payload) = match step {
        Move::Approve => ("submission.approved", json!({})),
        Move::Reject(reason) => ("submission.rejected", json!({ "reason": reason })),
        Move::Revert => ("submission.reverted", json!({ "fromStatus": before.status })),
    };
    tx.commit(action, format!("submission:{}", before.id), payload).await?;
    Ok(Some(after))
}
