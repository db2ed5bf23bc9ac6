//! Checks whether the caller may change these tuples: each object's type belongs to an enabled module (for an app's
//! backend, to the app itself), the caller passes steps 1 to 6 of the decision for that module and company, where a
//! superadmin needs no membership, and holds `admin` on each module whose tiers it changes. All of this is read at one
//! moment, and again under the locks of the writing transaction, so that a caller who lost the right while the request
//! waited for the locks changes nothing.

use std::collections::BTreeSet;

use contract::FieldProblem;
use contract::Subject;
use contract::decision::{AccessRequest, ObjectRef, Reason, SUPERADMIN, Scope};
use contract::envelope::code;
use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, Caller};

use super::request::GrantsRequest;
use super::store;
use super::types::{self, Grantee, Sorted, problem};
use crate::App;
use crate::decision::{self, Undecided};
use crate::engine::Engine;
use crate::engine::facts::{Ask, Facts, Held, Place, PlaceFacts, Question, SubjectRef};

/// Maximum number of attempts per request while the catalog changes; past it, registry counts as unavailable.
pub(super) const ATTEMPTS: usize = 4;

/// The result of the checks before the transaction.
pub(super) struct Admission {
    /// In the order of the request's tuples.
    pub(super) sorted: Vec<Sorted>,
    /// The modules that the tuples belong to.
    modules: BTreeSet<String>,
    /// The app whose client the bearer was issued to.
    client_of: Option<store::App>,
    /// The apps among the modules for which the caller is not the backend.
    others: Vec<String>,
    facts: Facts,
}

/// Judges the types and the decisions.
pub(super) async fn admit(
    app: &App,
    caller: &Caller,
    request: &GrantsRequest,
) -> Result<Admission, ApiError> {
    let client_of = match &caller.authorized_party {
        Some(client) => store::app_of_client(&app.core.pool, client).await?,
        None => None,
    };
    for _ in 0..ATTEMPTS {
        let first = read(&*app.engine, caller, request, &BTreeSet::new()).await?;
        let backend_of = backend_of(client_of.as_ref(), &caller.subject, &first)?;
        let sorted = types::sort_all(&first.model, request.op, &request.tuples);
        let sorted = sorted.map_err(|problems| ApiError::unprocessable(&problems))?;
        let modules: BTreeSet<String> = sorted.iter().map(|one| one.module.clone()).collect();
        let others = match backend_of {
            Some(own) => own_types_only(own, &sorted).map(|()| Vec::new())?,
            None => store::apps_among(&app.core.pool, &modules).await?,
        };
        let model = first.model;
        let facts = read(&*app.engine, caller, request, &modules).await?;
        if facts.model.edition() == model.edition() {
            let admission = Admission { sorted, modules, client_of, others, facts };
            admission.judge(&caller.subject, request.company, &admission.facts)?;
            return Ok(admission);
        }
    }
    Err(catalog_moves())
}

/// The app for which the caller is the backend. A token of an app's client for any other account than the client's own
/// is a user's token: it gives no right here, except to a superadmin, who has the same rights with every token.
fn backend_of<'a>(
    client_of: Option<&'a store::App>,
    subject: &Subject,
    facts: &Facts,
) -> Result<Option<&'a str>, ApiError> {
    let Some(app) = client_of else { return Ok(None) };
    if app.account.as_deref() == Some(subject.as_str()) {
        return Ok(Some(&app.key));
    }
    only_a_superadmin(&app.key, facts).map(|()| None)
}

/// Refuses callers other than a superadmin for what is reserved to an app's own account.
fn only_a_superadmin(app: &str, facts: &Facts) -> Result<(), ApiError> {
    match superadmin().map_or(Held::No, |role| facts.holds(&role)) {
        Held::Yes => Ok(()),
        Held::No => Err(denied("the bearer is not the app's own account", "NOT_THE_APPS_ACCOUNT", app)),
        Held::Unknown => Err(ApiError::unavailable("engine")),
    }
}

/// Logs that the catalog changed in every attempt, and returns the error.
pub(super) fn catalog_moves() -> ApiError {
    tracing::warn!("the catalog changes without a pause");
    ApiError::unavailable("registry")
}

async fn read(
    engine: &dyn Engine,
    caller: &Caller,
    request: &GrantsRequest,
    modules: &BTreeSet<String>,
) -> Result<Facts, ApiError> {
    let company = request.company;
    let asks = modules.iter().map(|key| admin_of(company, key)).chain(superadmin());
    let places = modules.iter().map(|key| place(company, key)).collect();
    let subject = SubjectRef::user(caller.subject.as_str());
    let question = Question { subject, places, asks: asks.collect() };
    let unread = |why| Undecided::at_once(&why, &caller.subject, &access(company, None)).into();
    engine.read(&question).await.map_err(unread)
}

fn place(company: CompanyId, module: &str) -> Place {
    Place { company: Some(company), module: Some(module.to_owned()), ..Place::default() }
}

fn admin_of(company: CompanyId, module: &str) -> Ask {
    Ask::new(ObjectRef::company_module(company, module), "admin")
}

fn superadmin() -> Option<Ask> {
    Ask::platform_role(SUPERADMIN)
}

/// The request for steps 1 to 6.
fn access(company: CompanyId, module: Option<&str>) -> AccessRequest {
    AccessRequest {
        feature_key: "platform.grants".to_owned(),
        scope: Scope::Company,
        module_key: module.map(ToOwned::to_owned),
        company_id: Some(company),
        required_platform_role: Some(SUPERADMIN.to_owned()),
        allow_platform_operator_company_scope: true,
        required_company_role: None,
        object: None,
        relation: None,
        correlation_id: None,
        actor_id: None,
        probe: false,
    }
}

fn own_types_only(own: &str, sorted: &[Sorted]) -> Result<(), ApiError> {
    if sorted.iter().any(|one| one.module != own) {
        return Err(denied("an app may grant on its own object types only", "TYPE_OF_ANOTHER_APP", own));
    }
    Ok(())
}

/// Refuses tuples of apps to callers other than the app's own account and superadmins. A module uses its user's bearer,
/// an app its own account's. The gateway lets no user through, but callers that reach authz's port are not trusted.
fn no_apps_types(apps: &[String], facts: &Facts) -> Result<(), ApiError> {
    apps.first().map_or(Ok(()), |app| only_a_superadmin(app, facts))
}

fn of_disabled(sorted: &[Sorted], modules: &BTreeSet<String>, places: &[PlaceFacts]) -> Vec<FieldProblem> {
    let usable =
        |place: &PlaceFacts| place.module.as_ref().is_some_and(|module| module.installed && module.enabled);
    let enabled: BTreeSet<&String> =
        modules.iter().zip(places).filter(|(_, place)| usable(place)).map(|(key, _)| key).collect();
    let wrong = sorted.iter().enumerate().filter(|(_, one)| !enabled.contains(&one.module));
    wrong
        .map(|(index, one)| {
            let field = if one.tier_of.is_some() { "objectId" } else { "objectType" };
            problem(index, field, "module", "of a module that is enabled")
        })
        .collect()
}

impl Admission {
    /// The revision of the catalog used for the judgement.
    pub(super) fn revision(&self) -> i64 {
        self.facts.model.revision()
    }

    /// Whether the caller may have held the platform role, so that the request may depend on it.
    pub(super) fn holds_role(&self) -> bool {
        superadmin().is_some_and(|role| self.facts.holds(&role) != Held::No)
    }

    /// Judges again with facts read under the locks of the transaction, including the right to change tiers. Returns
    /// `false` when the catalog has changed.
    pub(super) async fn judge_again(
        &self,
        app: &App,
        caller: &Caller,
        request: &GrantsRequest,
    ) -> Result<bool, ApiError> {
        let facts = read(&*app.engine, caller, request, &self.modules).await?;
        if facts.model.edition() != self.facts.model.edition() {
            return Ok(false);
        }
        self.judge(&caller.subject, request.company, &facts)?;
        self.may_change_tiers(request.company, &facts)?;
        Ok(true)
    }

    /// Judges the caller's account (403), the modules' state (422), tuples of apps and every decision (403).
    fn judge(&self, subject: &Subject, company: CompanyId, facts: &Facts) -> Result<(), ApiError> {
        backend_of(self.client_of.as_ref(), subject, facts)?;
        let problems = of_disabled(&self.sorted, &self.modules, &facts.places);
        if !problems.is_empty() {
            return Err(ApiError::unprocessable(&problems));
        }
        no_apps_types(&self.others, facts)?;
        for (key, place) in self.modules.iter().zip(&facts.places) {
            let decision = decision::judge(subject, &access(company, Some(key)), facts, place)?;
            if !decision.allowed {
                return Err(denied("the access decision is no", decision.reason.as_str(), key));
            }
        }
        Ok(())
    }

    /// Requires `admin` on a module to change its tiers, and superadmin for its default tuple, which is the platform's.
    fn may_change_tiers(&self, company: CompanyId, facts: &Facts) -> Result<(), ApiError> {
        for one in self.sorted.iter().filter(|one| one.tier_of.is_some()) {
            let (ask, reason) = if one.grantee == Grantee::System {
                (superadmin(), Reason::PlatformRoleRequired)
            } else {
                (Some(admin_of(company, &one.module)), Reason::EngineDenied)
            };
            match ask.map_or(Held::No, |ask| facts.holds(&ask)) {
                Held::Yes => {}
                Held::No => {
                    return Err(denied(
                        "only the module's administrators may change its tiers",
                        reason.as_str(),
                        &one.module,
                    ));
                }
                Held::Unknown => return Err(ApiError::unavailable("engine")),
            }
        }
        Ok(())
    }
}

/// Returns a 403 with its reason.
pub(super) fn denied(message: &'static str, reason: &str, module: &str) -> ApiError {
    ApiError::Forbidden {
        code: code::AUTHORIZATION_DENIED,
        message: message.into(),
        details: json!({ "reason": reason, "moduleKey": module }),
    }
}
