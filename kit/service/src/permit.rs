//! The decision before every read and write of a module. A [`Permit`] can only be had from authz, and store functions
//! of modules take one (or the [`CompanyTx`] that it began), so a forgotten decision does not compile. An
//! [`ObjectPermit`] is for one object only; a [`SystemPermit`] is what a worker acts under, for whom no bearer asks.

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

use crate::audit::{self, HistoryEntry};
use crate::clients::authz::AuthzClient;
use crate::company::{InternalCall, ServiceCall};
use crate::{ApiError, CompanyCall, CompanyTx, Core};

/// The object type that stands for a module in a company.
pub const COMPANY_MODULE: &str = "company_module";

/// One gated operation: a feature key of the module's fragment, and the object type and relation that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// `<moduleKey>.<scope>.<action>`.
    pub key: &'static str,
    /// Type of the object that is asked about.
    pub object: &'static str,
    /// Relation on the object.
    pub relation: &'static str,
    /// Whether a platform operator passes without being a member.
    pub operator: bool,
}

impl Feature {
    /// Asks for a relation on the company's module.
    #[must_use]
    pub const fn of_module(key: &'static str, relation: &'static str) -> Self {
        Self { key, object: COMPANY_MODULE, relation, operator: false }
    }

    /// Asks for a relation on one object of the module.
    #[must_use]
    pub const fn of_object(key: &'static str, object: &'static str, relation: &'static str) -> Self {
        Self { key, object, relation, operator: false }
    }

    /// The same, and a platform operator passes without being a member.
    #[must_use]
    pub const fn or_operator(self) -> Self {
        Self { operator: true, ..self }
    }

    fn is_of_module(self) -> bool {
        self.object == COMPANY_MODULE
    }
}

/// Proof that authz allowed a caller the operation's feature in a company, for this request only; never kept, and never
/// made outside this crate. As an extractor it asks for the feature of the operation.
#[derive(Debug)]
pub struct Permit(CompanyCall);

/// Proof that authz allowed a caller a feature on one object. As an extractor it asks for the feature of the operation on
/// the object that the first parameter of the path after the company names.
#[derive(Debug)]
pub struct ObjectPermit {
    call: CompanyCall,
    object: ObjectRef,
}

/// What a worker of a module acts under in a company: nobody's bearer, its own name in the audit rows.
#[derive(Clone, Copy, Debug)]
pub struct SystemPermit {
    /// In which company.
    pub company: CompanyId,
    worker: &'static str,
}

/// Proof that authz, asked by this service, says of a subject that a company is open to it: its account is live, and it is
/// an active member there or a platform operator. What a service does in the name of a subject whose bearer it does not
/// have, it does under this.
#[derive(Debug)]
pub struct SubjectPermit {
    /// In which company.
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
    /// Begins a transaction in the company, whose audit rows name the caller.
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        self.0.begin(core).await
    }
}

impl ObjectPermit {
    /// The object that it is for.
    #[must_use]
    pub const fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// As [`Permit::begin`].
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        self.call.begin(core).await
    }
}

impl Permit {
    /// The history of one object of the company: the audit rows with the subject `<type>:<id>`, the oldest first, at most
    /// the latest [`MAX_HISTORY`](crate::audit::MAX_HISTORY).
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn history(&self, core: &Core, subject: &str) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history(core, self.company, subject).await
    }
}

impl ObjectPermit {
    /// As [`Permit::history`], for the object that it is for; `subject` is what the object's audit rows call it.
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn history(&self, core: &Core, subject: &str) -> Result<Vec<HistoryEntry>, ApiError> {
        audit::history(core, self.company, subject).await
    }
}

impl SubjectPermit {
    /// As [`Permit::begin`]; the audit rows name the subject.
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        CompanyTx::begin(core, self.company, self.subject.as_str(), Some(self.correlation.as_str())).await
    }
}

impl SystemPermit {
    /// For the worker `worker`, a constant of its module, in a company that a row of the module names.
    #[must_use]
    pub const fn of(worker: &'static str, company: CompanyId) -> Self {
        Self { company, worker }
    }

    /// Begins a transaction in the company; the actor of its audit rows is `system:<worker>`.
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        CompanyTx::begin(core, self.company, &format!("system:{}", self.worker), None).await
    }
}

impl CompanyCall {
    async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        CompanyTx::begin(core, self.company, self.subject.as_str(), Some(self.correlation.as_str())).await
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
    stale: Option<Arc<dyn StaleRights>>,
}

/// Tuples of a module that give a caller what is true no more, as those of a member row that has another login now.
pub trait StaleRights: Send + Sync {
    /// Removes those of the caller, whom authz has just allowed the call; tells whether there were any, so that authz is asked
    /// again. Nothing of the call may be answered, and where it cannot be known, the call is refused.
    fn remove<'a>(&'a self, call: &'a CompanyCall) -> Removal<'a>;
}

/// Whether stale rights were removed.
pub type Removal<'a> = Pin<Box<dyn Future<Output = Result<bool, ApiError>> + Send + 'a>>;

impl Permits {
    /// For the module `module`.
    #[must_use]
    pub const fn new(module: &'static str, authz: AuthzClient) -> Self {
        Self { module, authz, stale: None }
    }

    /// The same; whoever is let in by stale rights loses them first, and is decided about again.
    #[must_use]
    pub fn without(self, stale: Arc<dyn StaleRights>) -> Self {
        Self { stale: Some(stale), ..self }
    }

    /// Asks for the permit of the operation's feature.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` with the reason; 503 when authz cannot answer. An answer that is not a whole
    /// decision is no answer.
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
    /// As [`Permit`] is refused.
    pub async fn ask_about(&self, call: InternalCall, company: CompanyId) -> Result<Permit, ApiError> {
        self.ask(call.about(company)).await
    }

    /// Asks for the permit of a feature of the module in a call of an operation whose own feature is about one object, where
    /// a module's rule opens that object to every member.
    ///
    /// # Errors
    /// As [`Permit`] is refused.
    pub async fn ask_module(&self, call: &CompanyCall, feature: &Feature) -> Result<Permit, ApiError> {
        let object = ObjectRef::company_module(call.company, self.module);
        let decision = self.first(call, feature, object, Asked::ToRefuse).await?;
        if decision.allowed { Ok(Permit(call.clone())) } else { Err(denied(&decision, feature)) }
    }

    /// Asks whether the company is open to the subject in whose name a service calls.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` with the reason; 503 when authz cannot answer.
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
    /// As [`Permit`] is refused.
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

    /// Asks for the permit of one object where another decision follows a no: authz writes down no denial.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
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

    /// As [`Self::ask_module`] where another decision follows a no: authz writes down no denial.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn probe_module(
        &self,
        call: &CompanyCall,
        feature: &Feature,
    ) -> Result<Option<Permit>, ApiError> {
        let object = ObjectRef::company_module(call.company, self.module);
        let decision = self.first(call, feature, object, Asked::ToNarrow).await?;
        Ok(decision.allowed.then(|| Permit(call.clone())))
    }

    /// Asks a second decision of an operation that has its permit already: a no narrows the answer (a field that is
    /// hidden, a lower tier) instead of refusing the call, so authz writes down no denial.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn probe(&self, permit: &Permit, feature: &Feature) -> Result<bool, ApiError> {
        let object = ObjectRef::company_module(permit.company, self.module);
        Ok(self.decide(permit, feature, object, Asked::ToNarrow).await?.allowed)
    }

    /// Asks a second decision of an operation that has its permit already, by whose no the call is going to be refused:
    /// authz writes the denial down.
    ///
    /// # Errors
    /// 503 when authz cannot answer.
    pub async fn allows(&self, permit: &Permit, feature: &Feature) -> Result<bool, ApiError> {
        let object = ObjectRef::company_module(permit.company, self.module);
        Ok(self.decide(permit, feature, object, Asked::ToRefuse).await?.allowed)
    }

    /// The decision by which a request is let in. A denied one asks nothing else.
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
