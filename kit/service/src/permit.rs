//! The decision before every read and write of a module. Only authz issues a [`Permit`], and the store functions of
//! modules take one (or the [`CompanyTx`] that it began), so a forgotten decision does not compile. An [`ObjectPermit`]
//! covers one object; a worker, which has no bearer, acts under a [`SystemPermit`].

use std::fmt::Display;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use contract::decision::{AccessRequest, Decision, ObjectRef};
use contract::envelope::code;
use contract::id::CompanyId;
use contract::{CorrelationId, Subject};
use http::request::Parts;
use serde_json::json;
use telemetry::traces::step;

use crate::audit::{self, Around, Hidden, HistoryEntry};
use crate::clients::authz::AuthzClient;
use crate::company::{InternalCall, ServiceCall};
use crate::{ApiError, CompanyCall, CompanyTx, Core};

/// The object type that stands for a module in a company.
pub const COMPANY_MODULE: &str = "company_module";

/// One gated operation: a feature key of the module's fragment, with its object type and relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// `<moduleKey>.<scope>.<action>`.
    pub key: &'static str,
    /// Type of the object.
    pub object: &'static str,
    /// Relation on the object.
    pub relation: &'static str,
    /// Whether a platform operator passes without a membership.
    pub operator: bool,
}

impl Feature {
    /// A relation on the company's module.
    #[must_use]
    pub const fn of_module(key: &'static str, relation: &'static str) -> Self {
        Self { key, object: COMPANY_MODULE, relation, operator: false }
    }

    /// A relation on one object of the module.
    #[must_use]
    pub const fn of_object(key: &'static str, object: &'static str, relation: &'static str) -> Self {
        Self { key, object, relation, operator: false }
    }

    /// The same feature, open to platform operators without a membership.
    #[must_use]
    pub const fn or_operator(self) -> Self {
        Self { operator: true, ..self }
    }

    fn is_of_module(self) -> bool {
        self.object == COMPANY_MODULE
    }
}

/// Proof that authz allowed a caller the operation's feature in a company. Valid for this request only, never stored,
/// and never made outside this crate. As an extractor, it asks for the operation's feature.
#[derive(Debug)]
pub struct Permit(CompanyCall);

/// Proof that authz allowed a caller a feature on one object. As an extractor, it asks for the operation's feature on
/// the object that the first path parameter after the company names.
#[derive(Debug)]
pub struct ObjectPermit {
    call: CompanyCall,
    object: ObjectRef,
}

/// The authority of a module's worker in a company: without a bearer, with the worker's name in the audit rows.
#[derive(Clone, Copy, Debug)]
pub struct SystemPermit {
    /// The company.
    pub company: CompanyId,
    worker: &'static str,
}

/// Proof that authz reports a company as open to a subject: the account is live, and the subject is an active member
/// there or a platform operator. A service acts under it on behalf of a subject whose bearer it does not have.
#[derive(Debug)]
pub struct SubjectPermit {
    /// The company.
    pub company: CompanyId,
    subject: Subject,
    correlation: CorrelationId,
}

impl Deref for Permit {
    type Target = CompanyCall;

    fn deref(&self) -> &CompanyCall {
        &self.0
    }
}

impl Deref for ObjectPermit {
    type Target = CompanyCall;

    fn deref(&self) -> &CompanyCall {
        &self.call
    }
}

impl Permit {
    /// Begins a transaction in the company; its audit rows name the caller.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        self.0.begin(core).await
    }
}

impl ObjectPermit {
    /// The permitted object.
    #[must_use]
    pub const fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// As [`Permit::begin`].
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        self.call.begin(core).await
    }
}

impl Permit {
    /// The history of one object of the company: the audit rows with the subject `<type>:<id>`, oldest first, at most
    /// the latest [`MAX_HISTORY`](crate::audit::MAX_HISTORY).
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn history(&self, core: &Core, subject: &str) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history(core, self.company, subject, &[]).await
    }

    /// As [`Self::history`], without the hidden entries, which do not count towards the limit either.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn history_without(
        &self,
        core: &Core,
        subject: &str,
        hidden: &[Hidden],
    ) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history(core, self.company, subject, hidden).await
    }

    /// The audit rows of one object of the company and those of the objects around it, oldest first, at most the latest
    /// [`MAX_HISTORY`](crate::audit::MAX_HISTORY) together.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn history_around(
        &self,
        core: &Core,
        subject: &str,
        around: &Around,
    ) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history_around(core, self.company, subject, around).await
    }
}

impl ObjectPermit {
    /// As [`Permit::history_without`], for the permitted object; `subject` is the object's name in its audit rows.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn history_without(
        &self,
        core: &Core,
        subject: &str,
        hidden: &[Hidden],
    ) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history(core, self.company, subject, hidden).await
    }

    /// As [`Permit::history_around`], for the permitted object.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn history_around(
        &self,
        core: &Core,
        subject: &str,
        around: &Around,
    ) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history_around(core, self.company, subject, around).await
    }
}

impl SubjectPermit {
    /// As [`Permit::begin`]; the audit rows name the subject.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        Ok(CompanyTx::of(core.begin(&self.subject, &self.correlation).await?, self.company))
    }
}

impl SystemPermit {
    /// A permit for the worker `worker`, a constant of its module, in a company that a row of the module names.
    #[must_use]
    pub const fn of(worker: &'static str, company: CompanyId) -> Self {
        Self { company, worker }
    }

    /// Begins a transaction in the company; the actor of its audit rows is `system:<worker>`.
    ///
    /// # Errors
    /// 503 when the database is unavailable.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        let tx = core.begin_as(&format!("system:{}", self.worker), None).await?;
        Ok(CompanyTx::of(tx, self.company))
    }
}

impl CompanyCall {
    async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        Ok(CompanyTx::of(core.begin(&self.subject, &self.correlation).await?, self.company))
    }
}

impl<S> FromRequestParts<S> for Permit
where
    S: Send + Sync,
    Core: FromRef<S>,
    Permits: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let call = CompanyCall::from_request_parts(parts, state).await?;
        Permits::from_ref(state).ask(call).await
    }
}

impl<S> FromRequestParts<S> for ObjectPermit
where
    S: Send + Sync,
    Core: FromRef<S>,
    Permits: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let call = CompanyCall::from_request_parts(parts, state).await?;
        let id = call.path.object().ok_or_else(|| ApiError::internal("a route without an object"))?;
        Permits::from_ref(state).ask_object(&call, &call.feature, id).await
    }
}

/// How authz treats a denial.
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
    stale: Option<Arc<dyn StaleRights>>,
}

/// Tuples of a module that grant a caller outdated rights, such as those of a member row that has moved to another
/// login.
pub trait StaleRights: Send + Sync {
    /// Removes the stale rights of the caller, whom authz has just allowed; returns whether there were any, so that
    /// authz is asked again. Until then the call must return nothing; if it is unknown whether there are any, the call
    /// is refused.
    fn remove<'a>(&'a self, call: &'a CompanyCall) -> Removal<'a>;
}

/// Whether stale rights were removed.
pub type Removal<'a> = Pin<Box<dyn Future<Output = Result<bool, ApiError>> + Send + 'a>>;

impl Permits {
    /// Asks on behalf of the module `module`.
    #[must_use]
    pub const fn new(module: &'static str, authz: AuthzClient) -> Self {
        Self { module, authz, stale: None }
    }

    /// Also removes stale rights: a caller admitted by them loses them first, and is then decided again.
    #[must_use]
    pub fn without(self, stale: Arc<dyn StaleRights>) -> Self {
        Self { stale: Some(stale), ..self }
    }

    /// Asks for the permit of the operation's feature.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` with the reason; 503 when authz is unavailable or its answer is not a complete
    /// decision.
    async fn ask(&self, call: CompanyCall) -> Result<Permit, ApiError> {
        let feature = call.feature;
        if !feature.is_of_module() {
            return Err(ApiError::internal(format!("{} is asked about one object", feature.key)));
        }
        let object = ObjectRef::company_module(call.company, self.module);
        let decision = self.first(&call, &feature, object, Asked::ToRefuse).await?;
        if decision.allowed { Ok(Permit(call)) } else { Err(denied(&decision, &feature)) }
    }

    /// Asks for the permit of an internal operation in the company that its body names.
    ///
    /// # Errors
    /// Those of [`Permit`].
    pub async fn ask_about(&self, call: InternalCall, company: CompanyId) -> Result<Permit, ApiError> {
        self.ask(call.about(company)).await
    }

    /// Asks for the permit of a module feature, in a call whose own feature concerns one object that a module rule
    /// opens to every member.
    ///
    /// # Errors
    /// Those of [`Permit`].
    pub async fn ask_module(&self, call: &CompanyCall, feature: &Feature) -> Result<Permit, ApiError> {
        let object = ObjectRef::company_module(call.company, self.module);
        let decision = self.first(call, feature, object, Asked::ToRefuse).await?;
        if decision.allowed { Ok(Permit(call.clone())) } else { Err(denied(&decision, feature)) }
    }

    /// Asks whether the company is open to the subject on whose behalf a service calls.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` with the reason; 503 when authz is unavailable.
    pub async fn ask_for(
        &self,
        call: &ServiceCall,
        company: CompanyId,
        subject: &Subject,
    ) -> Result<SubjectPermit, ApiError> {
        let answer = self.authz.company_of(company, subject, &call.correlation).await?;
        if !answer.held {
            return Err(ApiError::Forbidden {
                code: code::AUTHORIZATION_DENIED,
                message: "the company is not open to the subject".into(),
                details: json!({ "reason": answer.reason }),
            });
        }
        let (subject, correlation) = (subject.clone(), call.correlation.clone());
        Ok(SubjectPermit { company, subject, correlation })
    }

    /// Asks for the permit of one object, whose type the feature names.
    ///
    /// # Errors
    /// Those of [`Permit`].
    pub async fn ask_object(
        &self,
        call: &CompanyCall,
        feature: &Feature,
        id: impl Display,
    ) -> Result<ObjectPermit, ApiError> {
        let object = ObjectRef { kind: feature.object.to_owned(), id: id.to_string() };
        let decision = self.first(call, feature, object.clone(), Asked::ToRefuse).await?;
        if decision.allowed {
            return Ok(ObjectPermit { call: call.clone(), object });
        }
        Err(denied(&decision, feature))
    }

    /// Asks for the permit of one object where another decision follows a denial; authz records no denial.
    ///
    /// # Errors
    /// 503 when authz is unavailable.
    pub async fn probe_object(
        &self,
        call: &CompanyCall,
        feature: &Feature,
        id: impl Display,
    ) -> Result<Option<ObjectPermit>, ApiError> {
        let object = ObjectRef { kind: feature.object.to_owned(), id: id.to_string() };
        let decision = self.first(call, feature, object.clone(), Asked::ToNarrow).await?;
        Ok(decision.allowed.then(|| ObjectPermit { call: call.clone(), object }))
    }

    /// As [`Self::ask_module`] where another decision follows a denial; authz records no denial.
    ///
    /// # Errors
    /// 503 when authz is unavailable.
    pub async fn probe_module(
        &self,
        call: &CompanyCall,
        feature: &Feature,
    ) -> Result<Option<Permit>, ApiError> {
        let object = ObjectRef::company_module(call.company, self.module);
        let decision = self.first(call, feature, object, Asked::ToNarrow).await?;
        Ok(decision.allowed.then(|| Permit(call.clone())))
    }

    /// Asks for a second decision after the permit: a denial narrows the response (a hidden field, a lower tier)
    /// instead of refusing the call, so authz records none.
    ///
    /// # Errors
    /// 503 when authz is unavailable.
    pub async fn probe(&self, permit: &Permit, feature: &Feature) -> Result<bool, ApiError> {
        let object = ObjectRef::company_module(permit.company, self.module);
        Ok(self.decide(permit, feature, object, Asked::ToNarrow).await?.allowed)
    }

    /// Asks for a second decision after the permit, whose denial refuses the call, so authz records it.
    ///
    /// # Errors
    /// 503 when authz is unavailable.
    pub async fn allows(&self, permit: &Permit, feature: &Feature) -> Result<bool, ApiError> {
        let object = ObjectRef::company_module(permit.company, self.module);
        Ok(self.decide(permit, feature, object, Asked::ToRefuse).await?.allowed)
    }

    /// Asks for the decision that admits a request. A denied request asks nothing else.
    async fn first(
        &self,
        call: &CompanyCall,
        feature: &Feature,
        object: ObjectRef,
        asked: Asked,
    ) -> Result<Decision, ApiError> {
        let decision = self.decide(call, feature, object.clone(), asked).await?;
        let Some(stale) = self.stale.as_ref().filter(|_| decision.allowed) else { return Ok(decision) };
        if stale.remove(call).await? { self.decide(call, feature, object, asked).await } else { Ok(decision) }
    }

    async fn decide(
        &self,
        call: &CompanyCall,
        feature: &Feature,
        object: ObjectRef,
        asked: Asked,
    ) -> Result<Decision, ApiError> {
        let mut question = AccessRequest::of_module(self.module, call.company, feature.key, feature.relation);
        question.object = Some(object);
        let question = if feature.operator { question.or_operator() } else { question };
        let mut question = if asked == Asked::ToNarrow { question.as_probe() } else { question };
        question.correlation_id = Some(call.correlation.to_string());
        let asked = self.authz.can(&call.token, &question, &call.correlation);
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
