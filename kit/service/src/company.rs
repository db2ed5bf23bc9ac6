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
use crate::{ApiError, Caller, Core, Correlation, Feature, PathParams, inside};

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
        let operation = operation_of(parts)?;
        let feature = operation.asked(parts.uri.query());
        Ok(Self { caller, company, correlation, path, operation, feature })
    }
}

fn operation_of(parts: &Parts) -> Result<Operation, ApiError> {
    let operation = parts.extensions.get::<Operation>().copied();
    operation.ok_or_else(|| ApiError::internal("a route without an operation"))
}

/// A call of an operation of other services, in the name of a user. Its company stands in the body, so the decision comes
/// once that is read: [`Permits::ask_about`](crate::Permits::ask_about).
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

/// A service's own call of an internal operation, in the name of a subject that its body names: work that no request of
/// that subject asks for, such as an outbox. It proves the services' credential and nothing else; whether the subject may,
/// authz is asked: [`Permits::ask_for`](crate::Permits::ask_for).
#[derive(Clone, Debug)]
pub struct ServiceCall {
    pub(crate) correlation: CorrelationId,
}

/// Who calls an internal operation that both a user's request and a service's own work may call.
#[derive(Debug)]
pub enum InternalCaller {
    /// A service passes a user's bearer on.
    User(Box<InternalCall>),
    /// A service, by its credential.
    Service(ServiceCall),
}

impl<S> FromRequestParts<S> for InternalCaller
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    /// A request that carries a service's credential is a service's, and refused when the credential is wrong.
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
