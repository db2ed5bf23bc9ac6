//! Relation tuples in authz: given and taken with the user's bearer (module contract, "Internal endpoints used by
//! modules"), looked up with the services' credential.

use std::time::Duration;

use contract::CorrelationId;
use contract::envelope::code;
use contract::grants::{MAX_TUPLES, Op, Tuple};
use contract::id::CompanyId;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::authz::{AuthzClient, DECISION_BUDGET};
use crate::client::{Answer, Call, Unavailable};
use crate::layers::FOUNDATION_BODY_LIMIT;
use crate::{ApiError, CompanyCall};

/// How long authz may take to change tuples (`foundation.md` C12); the client has one budget for all it asks.
pub const GRANTS_BUDGET: Duration = DECISION_BUDGET;

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Tuples that were asked for.
    pub count: usize,
    /// Those that were not so before, as text; empty when the change had been made already.
    pub tuples: Vec<String>,
}

/// Why tuples were not changed.
#[derive(Debug, thiserror::Error)]
pub enum GrantRefused {
    /// authz refused: this call changed nothing. The caller may be told so.
    #[error(transparent)]
    Refused(ApiError),
    /// authz gave no whole answer: the change may have been made or not.
    #[error(transparent)]
    Unanswered(Unavailable),
}

impl From<GrantRefused> for ApiError {
    fn from(refused: GrantRefused) -> Self {
        match refused {
            GrantRefused::Refused(error) => error,
            GrantRefused::Unanswered(unavailable) => unavailable.into(),
        }
    }
}

/// In whose name, where and why a service takes tuples without a bearer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    /// The module whose types the tuples are of.
    pub(crate) module: &'a str,
    /// Whose.
    pub(crate) company: CompanyId,
    /// For the audit row.
    pub(crate) reason: &'a str,
    /// The request that led to it, or one of its own.
    pub(crate) correlation: &'a CorrelationId,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    op: Op,
    company_id: CompanyId,
    correlation_id: &'a str,
    tuples: &'a [Tuple],
}

#[derive(Deserialize)]
struct Told {
    status: String,
    count: usize,
    changed: usize,
    tuples: Vec<String>,
}

#[derive(Deserialize)]
struct Standing {
    standing: Vec<bool>,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalParts,
}

#[derive(Deserialize)]
struct RefusalParts {
    message: String,
    #[serde(default)]
    details: Value,
}

impl AuthzClient {
    /// Gives or takes all of these tuples of the call's company, or none, with the caller's bearer. Repeating it changes
    /// nothing. At most [`MAX_TUPLES`], and at most 1 MiB as JSON.
    ///
    /// # Errors
    /// [`GrantRefused::Refused`] for what authz refused (403 and 422 as it said them, 401 for a bearer that has expired
    /// meanwhile, 500 for a request that no module should send); [`GrantRefused::Unanswered`] (503) for everything else.
    pub async fn change(
        &self,
        call: &CompanyCall,
        op: Op,
        tuples: &[Tuple],
    ) -> Result<Changed, GrantRefused> {
        let correlation = &call.correlation;
        let body = Body { op, company_id: call.company, correlation_id: correlation.as_str(), tuples };
        let request = Call::new(Method::POST, "/internal/authz/grants").json(&body);
        fits(tuples, &request).map_err(|why| GrantRefused::Refused(ApiError::internal(why)))?;
        let request = request.bearer(&call.caller.token).correlation(correlation);
        let answer = self.0.send(request).await.map_err(GrantRefused::Unanswered)?;
        self.changed(&answer, op, tuples)
    }

    /// What a change of these tuples answered.
    fn changed(&self, answer: &Answer, op: Op, tuples: &[Tuple]) -> Result<Changed, GrantRefused> {
        if answer.status != StatusCode::OK {
            return Err(self.refused(answer));
        }
        let told: Told = self.0.data(answer).map_err(GrantRefused::Unanswered)?;
        let whole =
            told.status == op.status() && told.count == tuples.len() && told.changed == told.tuples.len();
        if !whole {
            let contradiction = self.0.unavailable("an answer about other tuples".to_owned());
            return Err(GrantRefused::Unanswered(contradiction));
        }
        Ok(Changed { count: told.count, tuples: told.tuples })
    }

    /// Takes all of these users' tuples of the module's own types in the company, or none, by the services' credential: for rows
    /// that must go whoever asks. Repeating it changes nothing. At most [`MAX_TUPLES`].
    ///
    /// # Errors
    /// As [`Self::change`].
    pub(crate) async fn take(&self, taken: &Taken<'_>, tuples: &[Tuple]) -> Result<Changed, GrantRefused> {
        let body = json!({ "moduleKey": taken.module, "companyId": taken.company, "reason": taken.reason, "tuples": tuples });
        let request = Call::new(Method::POST, "/internal/authz/tuples/revoke").json(&body);
        fits(tuples, &request).map_err(|why| GrantRefused::Refused(ApiError::internal(why)))?;
        let answer = self.0.send(request.correlation(taken.correlation)).await;
        self.changed(&answer.map_err(GrantRefused::Unanswered)?, Op::Revoke, tuples)
    }

    /// Whether each of these tuples stands now, in their order. Needs no bearer, only the services' credential: for
    /// workers that settle what a crash left behind; it permits nothing. At most [`MAX_TUPLES`].
    ///
    /// # Errors
    /// Anything but a whole answer.
    pub async fn standing(
        &self,
        tuples: &[Tuple],
        correlation: &CorrelationId,
    ) -> Result<Vec<bool>, Unavailable> {
        let request = Call::new(Method::POST, "/internal/authz/tuples/lookup");
        let request = request.correlation(correlation).json(&json!({ "tuples": tuples }));
        fits(tuples, &request).map_err(|why| self.0.unavailable(why.to_owned()))?;
        let answer = self.0.send(request).await?;
        if answer.status != StatusCode::OK {
            return Err(self.0.unavailable(format!("status {}", answer.status)));
        }
        let Standing { standing } = self.0.data(&answer)?;
        if standing.len() != tuples.len() {
            return Err(self.0.unavailable("an answer about other tuples".to_owned()));
        }
        Ok(standing)
    }

    /// What a status other than 200 says. Only a refusal in authz's own envelope is one.
    fn refused(&self, answer: &Answer) -> GrantRefused {
        let unanswered = |why| GrantRefused::Unanswered(self.0.unavailable(why));
        if !answer.status.is_client_error() {
            return unanswered(format!("status {}", answer.status));
        }
        let told: RefusalParts = match self.0.json::<Refusal>(answer) {
            Ok(refusal) => refusal.error,
            Err(unreadable) => return GrantRefused::Unanswered(unreadable),
        };
        let message = told.message.into();
        GrantRefused::Refused(match answer.status {
            StatusCode::UNAUTHORIZED => ApiError::TokenInvalid("authz takes it no more"),
            StatusCode::FORBIDDEN => {
                ApiError::Forbidden { code: code::AUTHORIZATION_DENIED, message, details: told.details }
            }
            StatusCode::UNPROCESSABLE_ENTITY => ApiError::Unprocessable { message, details: told.details },
            status => ApiError::internal(format!("authz refused the form of a grant: {status} {message}")),
        })
    }
}

/// The limits of the grants route, so that what cannot be taken is not sent.
fn fits(tuples: &[Tuple], request: &Call) -> Result<(), &'static str> {
    if !(1..=MAX_TUPLES).contains(&tuples.len()) {
        return Err("a request changes 1 to 1,000 tuples");
    }
    if request.body_bytes() > FOUNDATION_BODY_LIMIT {
        return Err("the tuples of one request are at most 1 MiB");
    }
    Ok(())
}
