//! The decision before every read and write of a module. A [`Permit`] can only be had from authz, and store calls of
//! modules take one, so a forgotten decision does not compile.

use contract::decision::{AccessRequest, Decision};
use contract::envelope::code;
use contract::id::CompanyId;
use contract::{CorrelationId, Subject};
use serde_json::json;
use telemetry::traces::step;

use crate::clients::authz::AuthzClient;
use crate::{ApiError, Caller};

/// One gated operation: a feature key of the module's fragment and the relation on its `company_module` it asks for.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// `<moduleKey>.<scope>.<action>`.
    pub key: &'static str,
    /// Relation on `company_module:<company>/<module>`.
    pub relation: &'static str,
    /// Whether a platform operator passes without being a member.
    pub operator: bool,
}

/// Proof that authz allowed a caller a feature in a company, for this request only; never kept, and never made outside
/// this crate.
#[derive(Debug)]
#[non_exhaustive]
pub struct Permit {
    /// Who was allowed.
    pub subject: Subject,
    /// Where.
    pub company: CompanyId,
    /// The request's name, for audit rows.
    pub correlation: CorrelationId,
}

/// What a no of authz is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    ToRefuse,
    ToNarrow,
}

/// Asks authz for permits on behalf of one module.
#[derive(Clone)]
pub struct Permits {
    module: &'static str,
    authz: AuthzClient,
}

impl Permits {
    /// For the module `module`.
    #[must_use]
    pub const fn new(module: &'static str, authz: AuthzClient) -> Self {
        Self { module, authz }
    }

    /// Asks for a permit.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` with the reason; 503 when authz cannot answer. An answer that is not a whole
    /// decision is no answer.
    pub async fn ask(
        &self,
        caller: &Caller,
        company: CompanyId,
        feature: &Feature,
        correlation: &CorrelationId,
    ) -> Result<Permit, ApiError> {
        let decision = self.decide(caller, company, feature, correlation, Asked::ToRefuse).await?;
        if decision.allowed {
            return Ok(Permit { subject: caller.subject.clone(), company, correlation: correlation.clone() });
        }
        Err(denied(&decision, feature))
    }

    /// Asks a second decision of an operation that has its permit already: a no narrows the answer (a field that is
    /// hidden, a lower tier) instead of refusing the call, so authz writes down no denial.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn holds(
        &self,
        caller: &Caller,
        company: CompanyId,
        feature: &Feature,
        correlation: &CorrelationId,
    ) -> Result<bool, ApiError> {
        Ok(self.decide(caller, company, feature, correlation, Asked::ToNarrow).await?.allowed)
    }

    /// Asks a second decision of an operation that has its permit already, by whose no the call is going to be refused: authz
    /// writes the denial down.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn allows(
        &self,
        caller: &Caller,
        company: CompanyId,
        feature: &Feature,
        correlation: &CorrelationId,
    ) -> Result<bool, ApiError> {
        Ok(self.decide(caller, company, feature, correlation, Asked::ToRefuse).await?.allowed)
    }

    async fn decide(
        &self,
        caller: &Caller,
        company: CompanyId,
        feature: &Feature,
        correlation: &CorrelationId,
        asked: Asked,
    ) -> Result<Decision, ApiError> {
        let question = AccessRequest::of_module(self.module, company, feature.key, feature.relation);
        let question = if feature.operator { question.or_operator() } else { question };
        let mut question = if asked == Asked::ToNarrow { question.as_probe() } else { question };
        question.correlation_id = Some(correlation.to_string());
        let asked = self.authz.can(&caller.token, &question, correlation);
        let decided = step("decision", asked, |decided, span| {
            span.set("platform.feature", feature.key);
            match decided {
                Ok(decision) => span.set("platform.reason", decision.reason.as_str()),
                Err(unavailable) => span.fail(unavailable.reason.clone()),
            }
        });
        Ok(decided.await?)
    }
}

fn denied(decision: &Decision, feature: &Feature) -> ApiError {
    ApiError::Forbidden {
        code: code::AUTHORIZATION_DENIED,
        message: "the access decision is no".into(),
        details: json!({
            "reason": decision.reason.as_str(),
            "featureKey": feature.key,
            "relation": feature.relation,
        }),
    }
}
