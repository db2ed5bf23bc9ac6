//! The handlers of the decision routes. `can` answers for the bearer only; the superadmin look-up is the edge's and
//! answers for the subject in its path.

use std::time::Instant;

use axum::extract::State;
use contract::Subject;
use contract::decision::{AccessRequest, Decision, Evidence, Reason};
use serde::Serialize;
use service::{ApiError, Caller, Correlation, Data, PathParams, RawBody};

use super::Denial;
use crate::App;
use crate::decision::{self, Undecided};

/// `POST /internal/authz/effective-access/can`: shape (400), then the steps; a denial is written down before it is told.
pub async fn can(
    State(app): State<App>,
    caller: Caller,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Data<Decision>, ApiError> {
    let begun = Instant::now();
    let request: AccessRequest = body.parse()?;
    refuse_other_actor(&request, &caller.subject)?;
    let decided = decision::decide(&*app.engine, &caller.subject, &request).await;
    let decided = match decided {
        Err(Undecided::UnknownFeature) => return Err(Undecided::UnknownFeature.into()),
        Err(unavailable) => Err(unavailable.into()),
        Ok(decision) if decision.allowed => Ok(decision),
        Ok(decision) => {
            let correlation = request.correlation_id.as_deref().unwrap_or_else(|| correlation.as_str());
            let denial = Denial::new(&caller.subject, &request, decision.reason, correlation);
            app.denials.write(denial).await.map(|()| decision)
        }
    };
    let reason = decided.as_ref().map_or(Reason::DependencyUnavailable, |decision| decision.reason);
    app.meter.count(reason, begun.elapsed());
    decided.map(Data)
}

/// What the edge's guard asks before a route of superadmins.
#[derive(Debug, Serialize)]
pub struct SuperadminAnswer {
    held: bool,
    reason: Reason,
    evidence: Vec<Evidence>,
}

/// `GET /internal/authz/superadmin/{kcSub}`: steps 1 to 4, not counted and not audited.
pub async fn superadmin(
    State(app): State<App>,
    path: PathParams,
) -> Result<Data<SuperadminAnswer>, ApiError> {
    let subject = path.subject("kcSub").ok_or_else(|| ApiError::BadRequest("kcSub is no subject".into()))?;
    let decided = decision::decide(&*app.engine, &subject, &decision::superadmin_request()).await?;
    let Decision { allowed: held, reason, evidence } = decided;
    Ok(Data(SuperadminAnswer { held, reason, evidence }))
}

/// A route of `NOT_YET`.
pub async fn not_yet(_caller: Caller) -> ApiError {
    ApiError::NotImplemented
}

fn refuse_other_actor(request: &AccessRequest, bearer: &Subject) -> Result<(), ApiError> {
    match &request.actor_id {
        Some(actor) if actor != bearer.as_str() => {
            Err(ApiError::validation_field("actorId", "actor", "absent or the bearer's own subject"))
        }
        _ => Ok(()),
    }
}
