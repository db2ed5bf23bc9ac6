//! What every operation of a module starts from: who asks, in which company, under which name, for which operation.
//! Extracting it is the first two checks of the fixed order (bearer, then the ids of the path); the decision comes next,
//! before anything else of the request is read: [`Permit`](crate::Permit) is extracted where the operation's feature is
//! one of the module, [`Permits::ask_object`](crate::Permits::ask_object) asks where it is one of an object.

use std::ops::Deref;

use axum::extract::{FromRef, FromRequestParts};
use contract::CorrelationId;
use contract::id::CompanyId;
use http::request::Parts;

use crate::operation::Operation;
use crate::{ApiError, Caller, Core, Correlation, Feature, PathParams};

/// A call of an operation. It is no permit.
#[derive(Clone, Debug)]
pub struct CompanyCall {
    /// The verified bearer.
    pub caller: Caller,
    /// The company of the path.
    pub company: CompanyId,
    /// The request's name.
    pub correlation: CorrelationId,
    /// The parameters of the path; those whose names end in `Id` are UUIDs.
    pub path: PathParams,
    /// The operation that is called.
    pub operation: Operation,
    /// The decision that this request asks.
    pub feature: Feature,
}

impl Deref for CompanyCall {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
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
        path.check_ids()?;
        let Ok(Correlation(correlation)) = Correlation::from_request_parts(parts, state).await;
        let operation = parts.extensions.get::<Operation>().copied();
        let operation = operation.ok_or_else(|| ApiError::internal("a route without an operation"))?;
        let feature = operation.asked(parts.uri.query());
        Ok(Self { caller, company, correlation, path, operation, feature })
    }
}
