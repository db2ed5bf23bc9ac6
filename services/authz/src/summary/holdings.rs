//! Asks the engine for a summary: whether the subject passes the first steps, whether it is a superadmin, and which
//! features and roles it has in which company. A summary is not a decision, so the companies may be read at different
//! moments.

use std::collections::BTreeSet;

use contract::Subject;
use contract::decision::{AccessRequest, Reason, SUPERADMIN, Scope};
use contract::id::CompanyId;
use serde::Serialize;
use service::ApiError;

use super::rules::{Feature, Rule};
use crate::decision::{self, Undecided};
use crate::engine::Engine;
use crate::engine::facts::{Ask, Facts, Held, Place, PlaceFacts, Question, SubjectRef};

/// Companies per question.
const AT_ONCE: usize = 16;

/// One entry of `roleBindings`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoleBinding {
    scope: Scope,
    role: &'static str,
    company_id: Option<CompanyId>,
}

/// The features and roles of a subject.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) features: BTreeSet<String>,
    pub(super) bindings: Vec<RoleBinding>,
}

/// Reads the holdings; `None` when the subject fails one of the first three steps, so that it may do nothing.
pub(super) async fn read(
    engine: &dyn Engine,
    subject: &Subject,
    companies: &[CompanyId],
    features: &[Feature],
) -> Result<Option<Holdings>, ApiError> {
    let request = decision::superadmin_request();
    let facts = ask(engine, subject, &[], features, &request).await?;
    let decided = decision::judge(subject, &request, &facts, &PlaceFacts::default())?;
    let mut found = Holdings::default();
    if decided.allowed {
        found.add_superadmin(features);
    } else if decided.reason != Reason::PlatformRoleRequired {
        return Ok(None);
    }
    for some in companies.chunks(AT_ONCE) {
        let facts = ask(engine, subject, some, features, &request).await?;
        for (company, place) in some.iter().zip(&facts.places) {
            if decision::judge(subject, &membership(*company), &facts, place)?.allowed {
                found.add_company(*company, features, &facts)?;
            }
        }
    }
    Ok(Some(found))
}

async fn ask(
    engine: &dyn Engine,
    subject: &Subject,
    companies: &[CompanyId],
    features: &[Feature],
    request: &AccessRequest,
) -> Result<Facts, ApiError> {
    let mut asks: Vec<Ask> = Ask::platform_role(SUPERADMIN).into_iter().collect();
    for company in companies {
        let roles = ROLES.iter().map(|role| Ask::company_role(*company, role));
        for ask in roles.chain(features.iter().filter_map(|feature| feature.ask(*company))) {
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
    }
    let places = companies.iter().map(|company| Place { company: Some(*company), ..Place::default() });
    let question = Question { subject: SubjectRef::user(subject.as_str()), places: places.collect(), asks };
    let unread = |why| Undecided::at_once(&why, subject, request).into();
    engine.read(&question).await.map_err(unread)
}

const ROLES: [&str; 2] = ["admin", "member"];

/// The request for steps 1 to 5.
fn membership(company: CompanyId) -> AccessRequest {
    AccessRequest {
        feature_key: "platform.summary".to_owned(),
        scope: Scope::Company,
        company_id: Some(company),
        required_platform_role: None,
        ..decision::superadmin_request()
    }
}

impl Holdings {
    fn add_superadmin(&mut self, features: &[Feature]) {
        self.bindings.push(RoleBinding { scope: Scope::Global, role: SUPERADMIN, company_id: None });
        let own = features.iter().filter(|feature| feature.rule == Rule::Superadmin);
        self.features.extend(own.map(|feature| feature.key.clone()));
    }

    fn add_company(
        &mut self,
        company: CompanyId,
        features: &[Feature],
        facts: &Facts,
    ) -> Result<(), ApiError> {
        for role in ROLES {
            if holds(facts, &Ask::company_role(company, role))? {
                self.bindings.push(RoleBinding { scope: Scope::Company, role, company_id: Some(company) });
            }
        }
        for feature in features.iter().filter(|feature| feature.rule != Rule::Superadmin) {
            if feature.ask(company).map_or(Ok(true), |ask| holds(facts, &ask))? {
                self.features.insert(feature.key.clone());
            }
        }
        Ok(())
    }
}

fn holds(facts: &Facts, ask: &Ask) -> Result<bool, ApiError> {
    match facts.holds(ask) {
        Held::Yes => Ok(true),
        Held::No => Ok(false),
        Held::Unknown => Err(ApiError::unavailable("engine")),
    }
}
