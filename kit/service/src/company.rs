//! What every operation of a module starts from: who asks, in which company, under which name. Extracting it is the
//! first two checks of the fixed order (bearer, then the company's id in the path); [`CompanyCall::permit`] is the
//! decision, which comes before anything else of the request is read.

use axum::extract::{FromRef, FromRequestParts};
use contract::CorrelationId;
use contract::id::CompanyId;
use http::request::Parts;

use crate::{ApiError, Caller, Core, Correlation, Feature, PathParams, Permit, Permits};

/// A call of a route under `/companies/{companyId}`.
#[derive(Debug)]
pub struct CompanyCall {
    /// The verified bearer.
    pub caller: Caller,
    /// The company of the path.
    pub company: CompanyId,
    /// The request's name.
    pub correlation: CorrelationId,
    /// The other parameters of the path; ids are read before the decision is asked.
    pub path: PathParams,
}

impl CompanyCall {
    /// Asks for the permit that this operation needs.
    ///
    /// # Errors
    /// 403 when the decision is no; 503 when authz cannot answer.
    pub async fn permit(&self, permits: &Permits, feature: &Feature) -> Result<Permit, ApiError> {
        permits.ask(&self.caller, self.company, feature, &self.correlation).await
    }

    /// Asks a further decision that narrows the answer instead of refusing the call; its no is no denial.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn holds(&self, permits: &Permits, feature: &Feature) -> Result<bool, ApiError> {
        permits.holds(&self.caller, self.company, feature, &self.correlation).await
    }

    /// Asks a further decision by whose no this call is going to be refused.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn allows(&self, permits: &Permits, feature: &Feature) -> Result<bool, ApiError> {
        permits.allows(&self.caller, self.company, feature, &self.correlation).await
    }
}

impl<S> FromRequestParts<S> for CompanyCall
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let path = PathParams::from_request_parts(parts, state).await?;
        let company = path.id("companyId")?;
        let correlation = match Correlation::from_request_parts(parts, state).await {
            Ok(Correlation(id)) => id,
        };
        Ok(Self { caller, company, correlation, path })
    }
}
