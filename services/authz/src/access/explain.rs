//! `GET /internal/authz/effective-access/explain`: explains a decision. The answer has the outcome of each of the seven
//! steps, the decision, and what the last step follows from. A superadmin may ask about any subject, an active member
//! of the company only about itself. The tree of relations reveals whom objects are shared with. Superadmins and
//! managers of the requested object see it; for other objects in it, a member sees only the tuples through which it
//! holds the relation, unless it manages them. Other callers see only the path by which they hold the relation. An
//! explanation is not a decision: it is neither counted nor audited.

use axum::extract::State;
use contract::Subject;
use contract::decision::{AccessRequest, Decision, MAX_NAME, ObjectRef, Reason, SUPERADMIN, Scope};
use contract::envelope::code;
use contract::id::CompanyId;
use serde::Serialize;
use serde_json::json;
use service::{ApiError, Caller, Data, Query};

use crate::App;
use crate::decision::{self, StepTold, Undecided};
use crate::engine::{Explained, Known, Model, Shown, Tree};

/// The path of a relation that is not held.
const NO_PATH: &str = "no path";

/// The answer to an explain request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    subject: Subject,
    steps: Vec<StepTold>,
    decision: Decision,
    /// The tuples that satisfy the relation, or [`NO_PATH`]; present when the relation was checked.
    path: Option<String>,
    /// Whether the path was cut.
    path_truncated: bool,
    /// Present when the relation was checked and the caller may see the object's tuples.
    tree: Option<Tree>,
}

/// Explains one decision.
pub async fn explain(
    State(app): State<App>,
    caller: Caller,
    query: Query,
) -> Result<Data<Explanation>, ApiError> {
    let subject = subject(&query)?.unwrap_or_else(|| caller.subject.clone());
    let request = request(&query)?;
    let _read = app.core.read_limit.enter(&caller.subject).await?;
    let own = subject == caller.subject;
    let role = decision::decide(&*app.engine, &caller.subject, &decision::superadmin_request()).await?;
    if !own {
        require_superadmin(&role)?;
    }
    let question = decision::question(&subject, &request);
    let unread = |why| Undecided::at_once(&why, &subject, &request);
    let shown = if role.allowed { Shown::All } else { Shown::Managed };
    let explained = match decision::relation_ask(&request) {
        Some(ask) => app.engine.explain(&question, &ask, shown).await.map_err(unread)?,
        None => Explained { facts: app.engine.read(&question).await.map_err(unread)?, tree: None },
    };
    let Explained { facts, tree } = explained;
    let place = facts.places.first().ok_or_else(|| ApiError::unavailable("engine"))?;
    if own && place.member_active != Some(true) {
        require_superadmin(&role)?;
    }
    must_know(&facts.model, &request)?;
    let decision = decision::judge(&subject, &request, &facts, place)?;
    let steps = decision::steps_told(&request, &decision);
    // An earlier step that denied did not check the relation, and an object of another company stays hidden.
    let looked = decision.evidence.iter().any(|item| item.key == "anchor" && item.value == "bound")
        || request.company_id.is_none();
    let asked = decision::relation_ask(&request).filter(|_| looked);
    let known = asked.as_ref().map(|ask| facts.paths.get(ask));
    let path = known.map(|path| path.map_or_else(|| NO_PATH.to_owned(), |path| path.text.clone()));
    let path_truncated = known.flatten().is_some_and(|path| path.is_cut);
    let tree = tree.filter(|_| looked);
    Ok(Data(Explanation { subject, steps, decision, path, path_truncated, tree }))
}

/// Rejects an unknown type or relation: a misspelled one would look like a denial.
fn must_know(model: &Model, request: &AccessRequest) -> Result<(), ApiError> {
    let (Some(object), Some(relation)) = (&request.object, &request.relation) else { return Ok(()) };
    let (field, what, known) = match model.knows(&object.kind, relation) {
        Known::Yes => return Ok(()),
        Known::NoType => ("objectType", "one of the types ".to_owned(), model.types().collect()),
        Known::NoRelation => {
            ("relation", format!("one of {}'s relations ", object.kind), model.relations(&object.kind))
        }
    };
    Err(ApiError::unprocessable_field(field, "unknown", format!("{what}{}", known.join(", "))))
}

fn subject(query: &Query) -> Result<Option<Subject>, ApiError> {
    let Some(text) = query.get("subject").filter(|text| !text.is_empty()) else { return Ok(None) };
    let wrong = || ApiError::validation_field("subject", "subject", "a subject of the identity provider");
    Subject::parse(text).map(Some).ok_or_else(wrong)
}

fn request(query: &Query) -> Result<AccessRequest, ApiError> {
    let name = |field: &'static str| -> Result<Option<String>, ApiError> {
        let text = query.text(field, MAX_NAME)?;
        Ok(text.filter(|text| !text.is_empty()).map(ToOwned::to_owned))
    };
    let company: Option<CompanyId> = query.optional_id("companyId")?;
    let (kind, id, relation) = (name("objectType")?, name("objectId")?, name("relation")?);
    let object = match (kind, id) {
        (Some(kind), Some(id)) => Some(ObjectRef { kind, id }),
        (None, None) => None,
        _ => return Err(ApiError::validation_field("objectId", "together", "with objectType, or neither")),
    };
    if relation.is_some() && object.is_none() {
        return Err(ApiError::validation_field("objectType", "required", "with relation"));
    }
    let scope =
        query.word("scope", &[("company", Scope::Company), ("global", Scope::Global)], Scope::Company)?;
    if scope == Scope::Company && company.is_none() {
        return Err(ApiError::validation_field("companyId", "required", "for company scope"));
    }
    let role = name("requiredPlatformRole")?;
    let flag = [("true", true), ("false", false)];
    Ok(AccessRequest {
        feature_key: name("featureKey")?.unwrap_or_else(|| "platform.explain".to_owned()),
        scope,
        module_key: name("moduleKey")?,
        company_id: company,
        required_platform_role: match scope {
            Scope::Global => Some(role.unwrap_or_else(|| SUPERADMIN.to_owned())),
            Scope::Company => role,
        },
        allow_platform_operator_company_scope: query.word(
            "allowPlatformOperatorCompanyScope",
            &flag,
            false,
        )?,
        required_company_role: name("requiredCompanyRole")?,
        object,
        relation,
        correlation_id: None,
        actor_id: None,
        probe: false,
    })
}

fn require_superadmin(decided: &Decision) -> Result<(), ApiError> {
    if decided.allowed {
        return Ok(());
    }
    let denied = decided.reason != Reason::PlatformRoleRequired;
    Err(ApiError::Forbidden {
        code: if denied { code::AUTHORIZATION_DENIED } else { code::PLATFORM_ROLE_REQUIRED },
        message: "a superadmin, or an active member of the company about itself".into(),
        details: json!({ "reason": decided.reason }),
    })
}
