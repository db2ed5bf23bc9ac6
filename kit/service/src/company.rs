//! The common input of every module operation: the caller, the company, the correlation id and the operation.
//! Extracting it performs the first two checks of the fixed order (bearer, then path ids). The decision comes next,
//! before anything else of the request is read: extracting [`Permit`](crate::Permit) asks for a feature of the module,
//! and [`Permits::ask_object`](crate::Permits::ask_object) asks for a feature of an object.

use std::ops::Deref;

use axum::extract::{FromRef, FromRequestParts};
use contract::CorrelationId;
use contract::id::CompanyId;
use http::request::Parts;

use crate::operation::Operation;
use crate::{ApiError, Caller, Core, Correlation, Feature, PathParams, inside};

/// A call of an operation. It is not a permit.
#[derive(Clone, Debug)]
pub struct CompanyCall {
    /// The verified bearer.
    pub caller: Caller,
    /// The company in the path.
    pub company: CompanyId,
    /// The request's correlation id.
    pub correlation: CorrelationId,
    /// The path parameters; those whose names end in `Id` are UUIDs.
    pub path: PathParams,
    /// The called operation.
    pub operation: Operation,
    /// The decision that this request needs.
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
        let operation = operation_of(parts)?;
        let feature = operation.asked(parts.uri.query());
        Ok(Self { caller, company, correlation, path, operation, feature })
    }
}

fn operation_of(parts: &Parts) -> Result<Operation, ApiError> {
    let operation = parts.extensions.get::<Operation>().copied();
    operation.ok_or_else(|| ApiError::internal("a route without an operation"))
}

/// A call of an internal operation by another service on behalf of a user. The body names the company, so the decision
/// follows once the body is read: [`Permits::ask_about`](crate::Permits::ask_about).
#[derive(Clone, Debug)]
pub struct InternalCall {
    caller: Caller,
    correlation: CorrelationId,
    path: PathParams,
    operation: Operation,
}

impl InternalCall {
    pub(crate) fn about(self, company: CompanyId) -> CompanyCall {
        let Self { caller, correlation, path, operation } = self;
        CompanyCall { caller, company, correlation, path, operation, feature: operation.feature }
    }
}

/// A service's own call of an internal operation, on behalf of a subject that its body names: work that no request of
/// that subject triggers, such as an outbox. It proves only the services' credential;
/// [`Permits::ask_for`](crate::Permits::ask_for) asks authz whether the subject is allowed.
#[derive(Clone, Debug)]
pub struct ServiceCall {
    pub(crate) correlation: CorrelationId,
}

/// The caller of an internal operation that accepts both a user's request and a service's own work.
#[derive(Debug)]
pub enum InternalCaller {
    /// A service that passes on a user's bearer.
    User(Box<InternalCall>),
    /// A service, identified by its credential.
    Service(ServiceCall),
}

impl<S> FromRequestParts<S> for InternalCaller
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    /// A request that carries a service credential comes from a service; a wrong credential is refused.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        if !parts.headers.contains_key(inside::HEADER) {
            let call = InternalCall::from_request_parts(parts, state).await?;
            return Ok(Self::User(Box::new(call)));
        }
        if !Core::from_ref(state).inside.is_service(&parts.headers) {
            return Err(ApiError::TokenInvalid("not the services' credential"));
        }
        let Ok(Correlation(correlation)) = Correlation::from_request_parts(parts, state).await;
        Ok(Self::Service(ServiceCall { correlation }))
    }
}

impl<S> FromRequestParts<S> for InternalCall
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let path = PathParams::from_request_parts(parts, state).await?;
        let Ok(Correlation(correlation)) = Correlation::from_request_parts(parts, state).await;
        Ok(Self { caller, correlation, path, operation: operation_of(parts)? })
    }
}
