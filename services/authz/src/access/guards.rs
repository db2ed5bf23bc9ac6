//! Checks of one subject for the gateway's guards and for services, authenticated with that subject's bearer or with a
//! service's own credential; the path names the subject. Services also ask whether a company's module is in use. These
//! checks are neither counted nor audited; the request's own decision, if it has one, is.

use axum::extract::State;
use contract::Subject;
use contract::decision::{AccessRequest, Decision, Evidence, Reason, Scope};
use contract::id::CompanyId;
use serde::Serialize;
use service::{ApiError, Data, PathParams, Reader};

use crate::App;
use crate::decision::{self, Undecided, superadmin_request};
use crate::engine::facts::{Place, Question, SubjectRef};

/// Whether the subject holds the platform role.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SuperadminAnswer {
    held: bool,
    reason: Reason,
    evidence: Vec<Evidence>,
    /// Whether steps 1 to 3 passed, regardless of the role.
    account_active: bool,
}

/// `GET /internal/authz/superadmin/{kcSub}`: steps 1 to 4.
pub async fn superadmin(
    State(app): State<App>,
    reader: Reader,
    path: PathParams,
) -> Result<Data<SuperadminAnswer>, ApiError> {
    let subject = subject(&path)?;
    reader.of_itself(&subject)?;
    let decided = decision::decide(&*app.engine, &subject, &superadmin_request()).await?;
    let Decision { allowed: held, reason, evidence } = decided;
    let account_active = held || reason == Reason::PlatformRoleRequired;
    Ok(Data(SuperadminAnswer { held, reason, evidence, account_active }))
}

/// Whether the subject may read a company's directory.
#[derive(Debug, Serialize)]
pub struct DirectoryAnswer {
    held: bool,
    reason: Reason,
    evidence: Vec<Evidence>,
}

/// `GET /internal/authz/directory/{companyId}/{kcSub}`: steps 1 to 5 in that company as a member, or else steps 1 to 4
/// as a superadmin, who needs neither a membership nor an existing company; both with facts of one moment.
pub async fn directory(
    State(app): State<App>,
    reader: Reader,
    path: PathParams,
) -> Result<Data<DirectoryAnswer>, ApiError> {
    let (company, subject) = (path.id("companyId")?, subject(&path)?);
    reader.of_itself(&subject)?;
    let request = directory_request(company);
    let question = decision::question(&subject, &request);
    let facts = app.engine.read(&question).await;
    let facts = facts.map_err(|why| Undecided::at_once(&why, &subject, &request))?;
    let place = facts.places.first().ok_or_else(|| ApiError::unavailable("engine"))?;
    let member = decision::judge(&subject, &request, &facts, place)?;
    let held = member.allowed || decision::judge(&subject, &superadmin_request(), &facts, place)?.allowed;
    let reason = if held { Reason::Allowed } else { member.reason };
    Ok(Data(DirectoryAnswer { held, reason, evidence: member.evidence }))
}

/// The subject of a question about no subject.
const NOBODY: &str = "system:worker";

/// Whether a company's module is in use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InUseAnswer {
    in_use: bool,
}

/// `GET /internal/authz/companies/{companyId}/modules/{moduleKey}`: the company is active, and the module is installed and
/// enabled. For the workers of services, which act for no subject.
pub async fn in_use(
    State(app): State<App>,
    reader: Reader,
    path: PathParams,
) -> Result<Data<InUseAnswer>, ApiError> {
    reader.inside_only()?;
    let company: CompanyId = path.id("companyId")?;
    let place =
        Place { company: Some(company), module: Some(path.text("moduleKey").to_owned()), ..Place::default() };
    let question = Question { subject: SubjectRef::user(NOBODY), places: vec![place], asks: Vec::new() };
    let facts = app.engine.read(&question).await.map_err(|why| {
        tracing::warn!(%why, "cannot tell whether a module is in use");
        ApiError::unavailable("engine")
    })?;
    let place = facts.places.first().ok_or_else(|| ApiError::unavailable("engine"))?;
    let is_module_on = place.module.as_ref().is_some_and(|module| module.installed && module.enabled);
    Ok(Data(InUseAnswer { in_use: place.company_active == Some(true) && is_module_on }))
}

/// Names the role so that its facts are read together with the company's; the role grants nothing here.
fn directory_request(company: CompanyId) -> AccessRequest {
    AccessRequest {
        feature_key: "org.directory".to_owned(),
        scope: Scope::Company,
        company_id: Some(company),
        ..superadmin_request()
    }
}

fn subject(path: &PathParams) -> Result<Subject, ApiError> {
    path.subject("kcSub").ok_or_else(|| ApiError::BadRequest("kcSub is not a subject".into()))
}
