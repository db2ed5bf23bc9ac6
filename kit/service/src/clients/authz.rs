//! The decision, asked with the user's bearer (module contract, "Internal endpoints used by modules").

use std::time::Duration;

use contract::decision::{AccessRequest, Decision, Reason};
use contract::id::CompanyId;
use contract::{CorrelationId, Subject};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{Call, Client, Unavailable, encode_segment};
use crate::{Caller, Inside, RoleAnswer};

/// How long a decision may take.
pub(super) const DECISION_BUDGET: Duration = Duration::from_millis(1_500);

/// Asks authz.
#[derive(Clone)]
pub struct AuthzClient(pub(super) Client);

impl AuthzClient {
    /// For authz at `base_url`, asked with the services' credential.
    #[must_use]
    pub fn new(base_url: &str, inside: &Inside) -> Self {
        Self(Client::new("authz", base_url, DECISION_BUDGET).inside(inside))
    }

    /// One decision.
    ///
    /// # Errors
    /// Anything but a 200 with a whole decision: the caller must refuse.
    pub async fn can(
        &self,
        token: &str,
        question: &AccessRequest,
        correlation: &CorrelationId,
    ) -> Result<Decision, Unavailable> {
        let call = Call::new(Method::POST, "/internal/authz/effective-access/can")
            .bearer(token)
            .correlation(correlation)
            .json(question);
        let answer = self.0.send(call).await?;
        if answer.status != StatusCode::OK {
            return Err(self.0.unavailable(format!("status {}", answer.status)));
        }
        let decision: Decision = self.0.data(&answer)?;
        if decision.allowed != (decision.reason == Reason::Allowed) {
            return Err(self.0.unavailable("a decision that contradicts itself".to_owned()));
        }
        Ok(decision)
    }

    /// Whether a caller holds the platform role now.
    ///
    /// # Errors
    /// Anything but a 200 with a whole answer: the caller must refuse.
    pub async fn platform_role(
        &self,
        caller: &Caller,
        correlation: &CorrelationId,
    ) -> Result<RoleAnswer, Unavailable> {
        let path = format!("/internal/authz/superadmin/{}", encode_segment(caller.subject.as_str()));
        self.about(caller, path, correlation).await
    }

    /// Whether a company's directory is open to a caller now.
    ///
    /// # Errors
    /// Anything but a 200 with a whole answer: the caller must refuse.
    pub async fn directory(
        &self,
        company: CompanyId,
        caller: &Caller,
        correlation: &CorrelationId,
    ) -> Result<RoleAnswer, Unavailable> {
        let subject = encode_segment(caller.subject.as_str());
        let path = format!("/internal/authz/directory/{company}/{subject}");
        self.about(caller, path, correlation).await
    }

    /// Whether a company is open to a subject now, as its active member or a platform operator. Asked with the services'
    /// credential alone.
    ///
    /// # Errors
    /// Anything but a 200 with a whole answer: the caller must refuse.
    pub async fn company_of(
        &self,
        company: CompanyId,
        subject: &Subject,
        correlation: &CorrelationId,
    ) -> Result<RoleAnswer, Unavailable> {
        let path = format!("/internal/authz/directory/{company}/{}", encode_segment(subject.as_str()));
        self.told(Call::new(Method::GET, path), correlation).await
    }

    /// Whether a company's module is in use: the company is active and the module enabled. Asked with the services'
    /// credential alone, for workers, which act for no subject.
    ///
    /// # Errors
    /// Anything but a 200 with a whole answer: the worker must wait.
    pub async fn is_in_use(
        &self,
        company: CompanyId,
        module_key: &str,
        correlation: &CorrelationId,
    ) -> Result<bool, Unavailable> {
        let path = format!("/internal/authz/companies/{company}/modules/{}", encode_segment(module_key));
        let answer: InUse = self.told(Call::new(Method::GET, path), correlation).await?;
        Ok(answer.in_use)
    }

    async fn about(
        &self,
        caller: &Caller,
        path: String,
        correlation: &CorrelationId,
    ) -> Result<RoleAnswer, Unavailable> {
        self.told(Call::new(Method::GET, path).bearer(&caller.token), correlation).await
    }

    async fn told<T: DeserializeOwned>(
        &self,
        call: Call,
        correlation: &CorrelationId,
    ) -> Result<T, Unavailable> {
        let call = call.correlation(correlation);
        let answer = self.0.send(call).await?;
        if answer.status != StatusCode::OK {
            return Err(self.0.unavailable(format!("status {}", answer.status)));
        }
        self.0.data(&answer)
    }
}

/// The answer of [`AuthzClient::is_in_use`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InUse {
    in_use: bool,
}
