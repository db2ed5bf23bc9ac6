//! The decision: a question built from the request (here), facts of one moment (`engine/`), seven steps (`steps.rs`),
//! an answer with its evidence (`reason.rs`). The steps are in the specification's order; nothing else depends on it. A
//! step that cannot be decided makes the whole decision unavailable, never a no and never a yes.

mod batch;
mod reason;
mod steps;

use contract::Subject;
use contract::decision::{AccessRequest, Decision, SUPERADMIN, Scope};

use crate::engine::Engine;
use crate::engine::facts::{Ask, Facts, Place, PlaceFacts, Question, SubjectRef};

pub use batch::{BatchAnswer, BatchItem, decide_all};
pub use reason::Undecided;
use steps::Case;
pub use steps::StepTold;
pub(crate) use steps::{canonical, relation_ask, told as steps_told};

/// Decides one request of one subject.
///
/// # Errors
/// The feature key is unknown to its app, or the question cannot be answered now.
pub async fn decide(
    engine: &dyn Engine,
    subject: &Subject,
    request: &AccessRequest,
) -> Result<Decision, Undecided> {
    let question = question(subject, request);
    let facts = engine.read(&question).await.map_err(|why| Undecided::at_once(&why, subject, request))?;
    let place = facts.places.first().ok_or_else(|| Undecided::without_place(subject, request))?;
    refuse_unknown_feature(request, &facts)?;
    judge(subject, request, &facts, place)
}

/// Rejects a feature key that its app has not registered.
///
/// # Errors
/// The feature is unknown to the app that the question is about.
fn refuse_unknown_feature(request: &AccessRequest, facts: &Facts) -> Result<(), Undecided> {
    let deciding = steps::deciding(&facts.model, request);
    let is_unknown = facts.model.is_unknown_feature(deciding, &request.feature_key);
    if is_unknown { Err(Undecided::UnknownFeature) } else { Ok(()) }
}

/// Decides one request with facts already read, for one of their places.
pub(crate) fn judge(
    subject: &Subject,
    request: &AccessRequest,
    facts: &Facts,
    place: &PlaceFacts,
) -> Result<Decision, Undecided> {
    steps::run(&Case { subject, request, facts, place })
}

/// The request that checks whether a subject is a superadmin: steps 1 to 4.
#[must_use]
pub fn superadmin_request() -> AccessRequest {
    AccessRequest {
        feature_key: "platform.superadmin".to_owned(),
        scope: Scope::Global,
        module_key: None,
        company_id: None,
        required_platform_role: Some(SUPERADMIN.to_owned()),
        allow_platform_operator_company_scope: false,
        required_company_role: None,
        object: None,
        relation: None,
        correlation_id: None,
        actor_id: None,
        probe: false,
    }
}

/// The question of a request: everything that any step may look at.
pub(crate) fn question(subject: &Subject, request: &AccessRequest) -> Question {
    let company = request.company_id.filter(|_| request.scope == Scope::Company);
    let object = request.object.as_ref();
    let place = Place {
        company,
        module: request.module_key.clone(),
        object_type: object.map(|object| object.kind.clone()),
        object_id: object.map(|object| object.id.clone()),
        by_anchor: false,
    };
    Question { subject: SubjectRef::user(subject.as_str()), places: vec![place], asks: asks(request) }
}

fn asks(request: &AccessRequest) -> Vec<Ask> {
    let platform = request.required_platform_role.as_deref().and_then(Ask::platform_role);
    let company = match (request.scope, request.company_id, &request.required_company_role) {
        (Scope::Company, Some(company), Some(role)) => Some(Ask::company_role(company, role)),
        _ => None,
    };
    [platform, company, relation_ask(request)].into_iter().flatten().collect()
}
