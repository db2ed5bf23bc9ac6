//! Asks the engine for a summary: whether the subject passes the first steps, whether it is a superadmin, and which
//! features, roles and own tuples it has in which company. A summary is not a decision, so the companies may be read at
//! different moments, each of them not before the request.

use std::sync::Arc;

use contract::Subject;
use contract::decision::{AccessRequest, Reason, SUPERADMIN, Scope};
use contract::id::CompanyId;
use hashbrown::HashSet;
use serde::Serialize;
use service::ApiError;

use super::catalogs::Catalogs;
use super::rules::{Catalog, Feature, Rule};
use crate::decision::{self, Undecided};
use crate::engine::facts::{Ask, Facts, Held, PlaceFacts, SubjectRef};
use crate::engine::{Engine, Model, OwnTuple, Portion, Summarized, Unanswered};

/// Companies per question.
const AT_ONCE: usize = 16;

/// Maximum number of a subject's own tuples on objects that a summary reads, whichever companies the objects belong to, and
/// maximum number of tuples that it lists, the few on modules first. This bounds the cost for a subject with very many.
const MAX_TUPLES: usize = 10_000;

/// One entry of `roleBindings`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoleBinding {
    scope: Scope,
    role: &'static str,
    company_id: Option<CompanyId>,
}

/// The engine, and the catalogs of its models.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) catalogs: &'a Catalogs,
}

/// The features, roles and own tuples of a subject, and the catalog that they were read by.
#[derive(Debug)]
pub(super) struct Holdings {
    pub(super) catalog: Arc<Catalog>,
    /// Their keys in ascending order, each once.
    pub(super) features: Vec<Arc<str>>,
    pub(super) bindings: Vec<RoleBinding>,
    pub(super) tuples: Vec<OwnTuple>,
    /// Whether `tuples` is complete.
    pub(super) are_all: bool,
}

/// Reads the only portion of a company's summary if that costs little more than a decision.
pub(super) async fn read_cheaply(
    sources: Sources<'_>,
    subject: &Subject,
    company: CompanyId,
) -> Result<Option<Summarized>, ApiError> {
    let companies = [company];
    let asks = |model: &Arc<Model>| asks(&sources.catalogs.of(model), &companies);
    let portion = portion(subject, &companies, &companies, &asks);
    sources.engine.summarize_cheaply(&portion).await.map_err(|why| unread(&why, subject))
}

/// Reads the holdings; `None` when the subject fails one of the first three steps, so that it may do nothing. `companies`
/// are in ascending order. `portion` is the first portion if it was read already.
pub(super) async fn read(
    sources: Sources<'_>,
    subject: &Subject,
    companies: &[CompanyId],
    portion: Option<Summarized>,
) -> Result<Option<Holdings>, ApiError> {
    let mut portions = companies.chunks(AT_ONCE);
    let first = portions.next().unwrap_or_default();
    let Summarized { facts, tiers, objects, looked_at } = match portion {
        Some(portion) => portion,
        None => ask(sources, subject, first, companies).await?,
    };
    let Some(mut found) = Holdings::begin(sources, subject, &facts)? else { return Ok(None) };
    let mut open = HashSet::new();
    found.add(subject, first, &facts, tiers, &mut open)?;
    for some in portions {
        let Summarized { facts, tiers, .. } = ask(sources, subject, some, &[]).await?;
        found.catalog = sources.catalogs.of(&facts.model);
        found.add(subject, some, &facts, tiers, &mut open)?;
    }
    found.tuples.extend(objects.into_iter().filter(|tuple| open.contains(&tuple.company)));
    found.are_all = looked_at <= MAX_TUPLES && found.tuples.len() <= MAX_TUPLES;
    found.tuples.truncate(MAX_TUPLES);
    Ok(Some(found))
}

async fn ask(
    sources: Sources<'_>,
    subject: &Subject,
    companies: &[CompanyId],
    objects_of: &[CompanyId],
) -> Result<Summarized, ApiError> {
    let asks = |model: &Arc<Model>| asks(&sources.catalogs.of(model), companies);
    let portion = portion(subject, companies, objects_of, &asks);
    sources.engine.summarize(&portion).await.map_err(|why| unread(&why, subject))
}

fn portion<'a>(
    subject: &Subject,
    companies: &'a [CompanyId],
    objects_of: &'a [CompanyId],
    asks: &'a (dyn Fn(&Arc<Model>) -> Vec<Ask> + Send + Sync),
) -> Portion<'a> {
    let subject = SubjectRef::user(subject.as_str());
    Portion { subject, companies, asks, objects_of, most_objects: MAX_TUPLES + 1 }
}

fn unread(why: &Unanswered, subject: &Subject) -> ApiError {
    Undecided::at_once(why, subject, &decision::superadmin_request()).into()
}

fn asks(catalog: &Catalog, companies: &[CompanyId]) -> Vec<Ask> {
    let of_company = |company: &CompanyId| {
        let roles = ROLES.map(|role| Ask::company_role(*company, role));
        let others: Vec<_> = catalog.asks(*company).filter(|ask| !roles.contains(ask)).collect();
        roles.into_iter().chain(others)
    };
    Ask::platform_role(SUPERADMIN).into_iter().chain(companies.iter().flat_map(of_company)).collect()
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
    /// What the subject has outside any company; `None` when it may do nothing.
    fn begin(sources: Sources<'_>, subject: &Subject, facts: &Facts) -> Result<Option<Self>, ApiError> {
        let decided =
            decision::judge(subject, &decision::superadmin_request(), facts, &PlaceFacts::default())?;
        if !decided.allowed && decided.reason != Reason::PlatformRoleRequired {
            return Ok(None);
        }
        let catalog = sources.catalogs.of(&facts.model);
        let (features, bindings, tuples) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Self { catalog, features, bindings, tuples, are_all: true };
        if decided.allowed {
            found.add_superadmin();
        }
        Ok(Some(found))
    }

    fn add_superadmin(&mut self) {
        self.bindings.push(RoleBinding { scope: Scope::Global, role: SUPERADMIN, company_id: None });
        let own = self.catalog.features.iter().filter(|feature| feature.rule == Rule::Superadmin);
        self.features.extend(own.map(|feature| Arc::clone(&feature.key)));
    }

    /// Adds what the subject has in those of the companies that are open to it, and collects those.
    fn add(
        &mut self,
        subject: &Subject,
        companies: &[CompanyId],
        facts: &Facts,
        tiers: Vec<OwnTuple>,
        open: &mut HashSet<CompanyId>,
    ) -> Result<(), ApiError> {
        for (company, place) in companies.iter().zip(&facts.places) {
            if decision::judge(subject, &membership(*company), facts, place)?.allowed {
                self.add_company(*company, facts)?;
                open.insert(*company);
            }
        }
        self.features.sort_unstable();
        self.features.dedup();
        self.tuples.extend(tiers.into_iter().filter(|tuple| open.contains(&tuple.company)));
        Ok(())
    }

    fn add_company(&mut self, company: CompanyId, facts: &Facts) -> Result<(), ApiError> {
        for role in ROLES {
            if holds(facts, &Ask::company_role(company, role))? {
                self.bindings.push(RoleBinding { scope: Scope::Company, role, company_id: Some(company) });
            }
        }
        let required: Vec<bool> =
            self.catalog.asks(company).map(|ask| holds(facts, &ask)).collect::<Result<_, _>>()?;
        let has = |feature: &&Feature| match feature.rule {
            Rule::Member => true,
            Rule::Superadmin => false,
            Rule::Holder(index) => required.get(index).is_some_and(|held| *held),
        };
        let features = &self.catalog.features;
        self.features.reserve(features.len());
        self.features.extend(features.iter().filter(has).map(|feature| Arc::clone(&feature.key)));
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
