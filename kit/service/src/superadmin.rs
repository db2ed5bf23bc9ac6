//! Routes for superadmins: a [`Superadmin`] exists only when authz has confirmed, for this very request, that the
//! bearer holds the platform role. The gateway asks the same before it forwards a change, but a service does not rely
//! on the caller having passed it; org's reads it forwards without asking. A change is committed only after authz has
//! confirmed the role once more, because the role may be revoked while a request waits for a lock.

use std::ops::Deref;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts};
use contract::CorrelationId;
use contract::envelope::code;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ApiError, AuditedTx, Caller, Core, Correlation};

/// How long the question before a commit may take: the transaction holds its locks meanwhile.
const CONFIRMATION_BUDGET: Duration = Duration::from_millis(500);

/// Whether a subject holds the platform role, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleAnswer {
    /// Whether it holds the role.
    pub held: bool,
    /// The decision's reason.
    pub reason: String,
    /// What the decision was based on.
    #[serde(default)]
    pub evidence: Value,
}

/// Looks up the platform role: implemented by the state of a service whose routes take a [`Superadmin`].
pub trait PlatformRole {
    /// Asks authz anew; the answer is never cached.
    ///
    /// # Errors
    /// 503 when authz is unavailable.
    fn platform_role(
        &self,
        caller: &Caller,
        correlation: &CorrelationId,
    ) -> impl Future<Output = Result<RoleAnswer, ApiError>> + Send;
}

/// A verified bearer that currently holds the platform role.
#[derive(Debug)]
pub struct Superadmin(Caller);

impl Deref for Superadmin {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl Superadmin {
    /// Begins a transaction for the caller. Its commit first asks authz, for at most half a second, whether the caller still
    /// holds the role; if the role was revoked before that question, nothing is committed.
    ///
    /// # Errors
    /// 503 when the database is unavailable. The commit returns 403 when the role is no longer held and 503 when authz is
    /// unavailable.
    pub async fn begin<S>(&self, state: &S, correlation: &CorrelationId) -> Result<AuditedTx, ApiError>
    where
        S: PlatformRole + Clone + Send + Sync + 'static,
        Core: FromRef<S>,
    {
        let tx = Core::from_ref(state).begin(&self.subject, correlation).await?;
        let (state, caller, correlation) = (state.clone(), self.0.clone(), correlation.clone());
        Ok(tx.confirmed_by(move || async move {
            let asked = tokio::time::timeout(CONFIRMATION_BUDGET, require(&state, &caller, &correlation));
            asked.await.unwrap_or_else(|_| Err(ApiError::unavailable("authz")))
        }))
    }

    /// Asks again, under a lock that orders writes with the removal of the role: the earlier answer may have become
    /// outdated while this request waited for the lock.
    ///
    /// # Errors
    /// 403 when the role is no longer held; 503 when authz is unavailable.
    pub async fn confirm<S>(&self, state: &S, correlation: &CorrelationId) -> Result<(), ApiError>
    where
        S: PlatformRole + Sync,
    {
        require(state, &self.0, correlation).await
    }
}

impl<S> FromRequestParts<S> for Superadmin
where
    S: PlatformRole + Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let Ok(Correlation(correlation)) = Correlation::from_request_parts(parts, state).await;
        require(state, &caller, &correlation).await?;
        Ok(Self(caller))
    }
}

async fn require<S>(state: &S, caller: &Caller, correlation: &CorrelationId) -> Result<(), ApiError>
where
    S: PlatformRole + Sync,
{
    let answer = state.platform_role(caller, correlation).await?;
    if answer.held { Ok(()) } else { Err(denied(&answer)) }
}

/// Refuses in the form of the gateway's guard.
fn denied(answer: &RoleAnswer) -> ApiError {
    let role = answer.reason == code::PLATFORM_ROLE_REQUIRED;
    ApiError::Forbidden {
        code: if role { code::PLATFORM_ROLE_REQUIRED } else { code::AUTHORIZATION_DENIED },
        message: "the platform superadmin role is required".into(),
        details: json!({ "reason": answer.reason, "evidence": answer.evidence }),
    }
}
