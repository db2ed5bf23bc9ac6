//! The seven steps (gateway document, "Access decision", rule 7), one function each, in one list. A step reads facts,
//! records what it looked at, and passes, denies, or cannot decide. No step does I/O.

use std::cmp::Ordering;

use contract::Subject;
use contract::decision::{AccessRequest, Decision, ObjectRef, Reason, Scope};
use contract::id::{CompanyId, parse_uuid};
use serde::Serialize;

use super::reason::{Trail, Undecided, decision};
use crate::engine::facts::{Ask, Facts, Held, PlaceFacts, company_module, deciding_module};
use crate::engine::{Known, Model};

/// Valid age of identity's last poll of the provider: at most that of an access token. A poll from the future does not
/// count, except for one second, to allow for a clock that was set back.
const LOOK_AGE_S: std::ops::RangeInclusive<f64> = -1.0..=300.0;

/// Everything that a step may look at.
pub(super) struct Case<'a> {
    pub(super) subject: &'a Subject,
    pub(super) request: &'a AccessRequest,
    pub(super) facts: &'a Facts,
    pub(super) place: &'a PlaceFacts,
}

/// The result of a step. The word of a denial names the part of the step that denied.
enum Verdict {
    Pass,
    Deny(Reason, &'static str),
    CannotSay(&'static str),
}

type Step = fn(&Case<'_>, &mut Trail) -> Verdict;

const STEPS: [Step; 7] = [
    subject_exists,
    account_is_enabled,
    lifecycle_is_active,
    platform_role_is_held,
    company_lets_in,
    module_is_enabled,
    relation_is_held,
];

/// Runs the steps until one does not pass.
pub(super) fn run(case: &Case<'_>) -> Result<Decision, Undecided> {
    let mut trail = Trail::begin(case.subject, case.request);
    for (index, step) in STEPS.iter().enumerate() {
        match step(case, &mut trail) {
            Verdict::Pass => {}
            Verdict::Deny(reason, at) => return Ok(end(case, trail, reason, index + 1, Some(at))),
            Verdict::CannotSay(dependency) => {
                let evidence = trail.finish(index + 1);
                return Err(Undecided::Unavailable { dependency, step: index + 1, evidence });
            }
        }
    }
    let (step, stopped) = if case.request.relation.is_some() { (7, None) } else { (6, Some("module")) };
    Ok(end(case, trail, Reason::Allowed, step, stopped))
}

fn end(case: &Case<'_>, mut trail: Trail, reason: Reason, step: usize, stopped: Option<&str>) -> Decision {
    if let Some(stopped) = stopped {
        trail.note("stoppedAt", stopped);
    }
    trail.note("revision", format!("{}@{}", case.facts.model.revision(), case.facts.snapshot));
    decision(reason, trail.finish(step))
}

/// One step and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepTold {
    step: usize,
    name: &'static str,
    /// `passed`, `skipped`, `denied` or `not reached`.
    outcome: &'static str,
}

/// The evidence key of the module whose state was checked.
const MODULE_KEY: &str = "moduleKey";

/// The names of the steps, in order.
const NAMES: [&str; STEPS.len()] =
    ["subject", "account", "lifecycle", "platformRole", "company", "module", "relation"];

/// The outcome of each step of a decision.
pub(crate) fn told(request: &AccessRequest, decision: &Decision) -> Vec<StepTold> {
    let deciding = decision.evidence.first().and_then(|item| item.value.parse().ok()).unwrap_or(0);
    let asked = |name: &str| match name {
        "platformRole" => request.scope == Scope::Global,
        "company" => request.scope == Scope::Company,
        "module" => decision.evidence.iter().any(|item| item.key == MODULE_KEY),
        "relation" => request.relation.is_some(),
        _ => true,
    };
    let outcome = |step: usize, name| match step.cmp(&deciding) {
        Ordering::Equal if !decision.allowed => "denied",
        Ordering::Greater if !decision.allowed => "not reached",
        Ordering::Less | Ordering::Equal | Ordering::Greater if asked(name) => "passed",
        Ordering::Less | Ordering::Equal | Ordering::Greater => "skipped",
    };
    let step = |(index, name): (usize, &&'static str)| StepTold {
        step: index + 1,
        name,
        outcome: outcome(index + 1, *name),
    };
    NAMES.iter().enumerate().map(step).collect()
}

fn subject_exists(case: &Case<'_>, _trail: &mut Trail) -> Verdict {
    match case.facts.subject {
        Some(_) => Verdict::Pass,
        None => Verdict::Deny(Reason::AuthUserNotFound, "subject"),
    }
}

/// Passes only while identity's last poll of the provider is fresh.
fn account_is_enabled(case: &Case<'_>, _trail: &mut Trail) -> Verdict {
    let fresh = case.facts.look_age_s.is_some_and(|age| LOOK_AGE_S.contains(&age));
    match &case.facts.subject {
        _ if !fresh => Verdict::CannotSay("idp"),
        Some(subject) if subject.idp_enabled => Verdict::Pass,
        _ => Verdict::Deny(Reason::IdpDisabled, "account"),
    }
}

fn lifecycle_is_active(case: &Case<'_>, _trail: &mut Trail) -> Verdict {
    match &case.facts.subject {
        Some(subject) if subject.lifecycle == "active" => Verdict::Pass,
        _ => Verdict::Deny(Reason::UserLifecycleDisabled, "lifecycle"),
    }
}

fn platform_role_is_held(case: &Case<'_>, trail: &mut Trail) -> Verdict {
    if case.request.scope != Scope::Global {
        return Verdict::Pass;
    }
    match platform_role(case, trail) {
        Held::Yes => Verdict::Pass,
        Held::No => Verdict::Deny(Reason::PlatformRoleRequired, "platformRole"),
        Held::Unknown => Verdict::CannotSay("engine"),
    }
}

/// Checks that the company is active, then membership or the operator exception, then the company role.
fn company_lets_in(case: &Case<'_>, trail: &mut Trail) -> Verdict {
    if case.request.scope != Scope::Company {
        return Verdict::Pass;
    }
    let Some(company) = case.request.company_id else { return without_company(case, trail) };
    trail.note("companyId", company.to_string());
    if case.place.company_active != Some(true) {
        return Verdict::Deny(Reason::CompanyInactive, "company");
    }
    match membership(case, trail) {
        Verdict::Pass => company_role(case, company, trail),
        refused @ (Verdict::Deny(..) | Verdict::CannotSay(_)) => refused,
    }
}

/// Denies a batch item whose object belongs to no company.
fn without_company(case: &Case<'_>, trail: &mut Trail) -> Verdict {
    if let Some(ask) = relation_ask(case.request) {
        trail.note("object", ask.object.to_string());
    }
    trail.note("anchor", Bound::Missing.word());
    Verdict::Deny(Reason::EngineDenied, "anchor")
}

fn membership(case: &Case<'_>, trail: &mut Trail) -> Verdict {
    let excepted = if case.request.allow_platform_operator_company_scope
        && case.request.required_platform_role.is_some()
    {
        platform_role(case, trail)
    } else {
        Held::No
    };
    match (case.place.member_active, excepted) {
        (Some(true), _) => noted(trail, "active", Verdict::Pass),
        (_, Held::Yes) => noted(trail, "operator", Verdict::Pass),
        (_, Held::Unknown) => Verdict::CannotSay("engine"),
        (Some(false), Held::No) => {
            noted(trail, "inactive", Verdict::Deny(Reason::CompanyAccessBlocked, "membership"))
        }
        (None, Held::No) => {
            noted(trail, "none", Verdict::Deny(Reason::CompanyMembershipRequired, "membership"))
        }
    }
}

fn noted(trail: &mut Trail, membership: &str, verdict: Verdict) -> Verdict {
    trail.note("membership", membership);
    verdict
}

fn company_role(case: &Case<'_>, company: CompanyId, trail: &mut Trail) -> Verdict {
    let Some(role) = &case.request.required_company_role else { return Verdict::Pass };
    let held = case.facts.holds(&Ask::company_role(company, role));
    trail.note("companyRole", [role, " ", word(held)].concat());
    match held {
        Held::Yes => Verdict::Pass,
        Held::No => Verdict::Deny(Reason::CompanyRoleRequired, "companyRole"),
        Held::Unknown => Verdict::CannotSay("engine"),
    }
}

fn platform_role(case: &Case<'_>, trail: &mut Trail) -> Held {
    let role = case.request.required_platform_role.as_deref().unwrap_or_default();
    let held = Ask::platform_role(role).map_or(Held::No, |ask| case.facts.holds(&ask));
    trail.note("platformRole", [role, " ", word(held)].concat());
    held
}

/// The module whose state decides.
pub(super) fn deciding<'a>(model: &'a Model, request: &'a AccessRequest) -> Option<&'a str> {
    let object = request.object.as_ref().map(|object| (object.kind.as_str(), object.id.as_str()));
    deciding_module(model, request.module_key.as_deref(), object)
}

fn module_key<'a>(case: &Case<'a>) -> Option<&'a str> {
    deciding(&case.facts.model, case.request)
}

fn module_is_enabled(case: &Case<'_>, trail: &mut Trail) -> Verdict {
    let Some(key) = module_key(case) else { return Verdict::Pass };
    trail.note(MODULE_KEY, key);
    let state = match &case.place.module {
        Some(module) if module.installed && module.enabled => "enabled",
        Some(module) if module.installed => "disabled",
        Some(_) => "not installed",
        None => "unknown",
    };
    trail.note("moduleState", state);
    if state == "enabled" { Verdict::Pass } else { Verdict::Deny(Reason::ModuleDisabled, "module") }
}

fn relation_is_held(case: &Case<'_>, trail: &mut Trail) -> Verdict {
    let (Some(relation), Some(ask)) = (&case.request.relation, relation_ask(case.request)) else {
        return Verdict::Pass;
    };
    trail.note("object", ask.object.to_string());
    let known = case.facts.model.knows(&ask.object.kind, relation);
    if known != Known::Yes {
        let what = if known == Known::NoType { "unknown type" } else { "unknown relation" };
        trail.note("relation", [relation, " ", what].concat());
        return Verdict::Deny(Reason::EngineDenied, "relation");
    }
    if let Some(company) = case.request.company_id {
        let bound = bind(case, company, &ask.object);
        trail.note("anchor", bound.word());
        if bound != Bound::Here {
            return Verdict::Deny(Reason::EngineDenied, "anchor");
        }
    }
    let held = case.facts.holds(&ask);
    trail.note("relation", [relation, " ", word(held)].concat());
    if let Some(path) = case.facts.paths.get(&ask) {
        trail.note("path", &path.text);
    }
    match held {
        Held::Yes => Verdict::Pass,
        Held::No => Verdict::Deny(Reason::EngineDenied, "relation"),
        Held::Unknown => Verdict::CannotSay("engine"),
    }
}

/// The relation check of a request, with its object in the form that tuples use.
pub(crate) fn relation_ask(request: &AccessRequest) -> Option<Ask> {
    let object = request.object.as_ref()?;
    let relation = request.relation.as_ref()?;
    Some(Ask::new(canonical(object), relation))
}

/// Lower-cases UUIDs, as tuples do; a request may use any case.
pub(crate) fn canonical(object: &ObjectRef) -> ObjectRef {
    let same = || object.clone();
    match object.kind.as_str() {
        "company_module" => company_module(&object.id)
            .map_or_else(same, |(company, key)| ObjectRef::company_module(company, key)),
        "company" => parse_uuid(&object.id)
            .map_or_else(same, |id| ObjectRef { kind: object.kind.clone(), id: id.to_string() }),
        _ => same(),
    }
}

/// Whether an object belongs to the request's company and, if it names one, its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Here,
    Elsewhere,
    OtherModule,
    Missing,
}

impl Bound {
    const fn word(self) -> &'static str {
        match self {
            Self::Here => "bound",
            Self::Elsewhere => "elsewhere",
            Self::OtherModule => "other module",
            Self::Missing => "missing",
        }
    }
}

fn bind(case: &Case<'_>, company: CompanyId, object: &ObjectRef) -> Bound {
    match object.kind.as_str() {
        "company_module" => match company_module(&object.id) {
            None => Bound::Missing,
            Some((other, _)) if other != company => Bound::Elsewhere,
            Some((_, key)) => bind_module(case, key),
        },
        "company" if object.id == company.to_string() => Bound::Here,
        "company" => Bound::Elsewhere,
        kind => {
            case.facts.model.owner(kind).map_or(Bound::Missing, |owner| bind_anchored(case, company, owner))
        }
    }
}

/// A module's object is anchored to its module in this company and to nothing else. One that is anchored elsewhere
/// looks like a missing one, so that other companies' objects stay hidden.
fn bind_anchored(case: &Case<'_>, company: CompanyId, owner: &str) -> Bound {
    let anchors = &case.place.anchors;
    let anchor = ObjectRef::company_module(company, owner).id;
    if !anchors.is_empty() && anchors.iter().all(|id| *id == anchor) {
        bind_module(case, owner)
    } else {
        Bound::Missing
    }
}

/// Checks that the module whose state step 6 checked is the object's.
fn bind_module(case: &Case<'_>, owner: &str) -> Bound {
    match module_key(case) {
        Some(key) if key != owner => Bound::OtherModule,
        _ => Bound::Here,
    }
}

const fn word(held: Held) -> &'static str {
    match held {
        Held::Yes => "held",
        Held::No => "not held",
        Held::Unknown => "not known",
    }
}
