//! Decides many pairs of object and relation at once: one question, one moment, the same steps for each. An item names
//! no company. Its company is that of its `company_module` object, or else that of the object's anchor if the subject
//! has access to that company. Without either the item is denied, so that another company's object looks like a missing
//! one. The module is the one that `can` would use for that object without a `moduleKey`.

use contract::Subject;
use contract::decision::{AccessRequest, Decision, MAX_NAME, ObjectRef, Scope};
use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use serde::Serialize;

use super::reason::Undecided;
use super::steps::{self, Case};
use crate::engine::Engine;
use crate::engine::facts::{Ask, Place, PlaceFacts, Question, SubjectRef, company_module};

/// One pair and its decision.
#[derive(Debug, Serialize)]
pub struct BatchAnswer {
    pub(crate) object: ObjectRef,
    pub(crate) relation: String,
    pub(crate) decision: Decision,
}

/// One pair of object and relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchItem {
    /// The object.
    pub object: ObjectRef,
    /// The relation.
    pub relation: String,
}

impl FromBody for BatchItem {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let object = fields.optional_object("object").and_then(|found| fields.required("object", found));
        let relation = fields.text("relation", Text::line(MAX_NAME));
        Some(Self { object: object?, relation: relation? })
    }
}

/// Decides every item; the decisions are in the order of the items.
///
/// # Errors
/// An item cannot be decided now; then none is answered.
pub async fn decide_all(
    engine: &dyn Engine,
    subject: &Subject,
    items: &[BatchItem],
) -> Result<Vec<Decision>, Undecided> {
    let Some(first) = items.first() else { return Ok(Vec::new()) };
    let question = question(subject, items);
    let unread = |why| Undecided::at_once(&why, subject, &request(first, None));
    let facts = engine.read(&question).await.map_err(unread)?;
    let decide = |(item, place): (&BatchItem, &PlaceFacts)| {
        let request = request(item, Some(place));
        steps::run(&Case { subject, request: &request, facts: &facts, place })
    };
    if facts.places.len() != items.len() {
        return Err(Undecided::without_place(subject, &request(first, None)));
    }
    items.iter().zip(&facts.places).map(decide).collect()
}

fn question(subject: &Subject, items: &[BatchItem]) -> Question {
    let mut asks: Vec<Ask> = Vec::with_capacity(items.len());
    for ask in items.iter().filter_map(|item| steps::relation_ask(&request(item, None))) {
        if !asks.contains(&ask) {
            asks.push(ask);
        }
    }
    let places = items.iter().map(place).collect();
    Question { subject: SubjectRef::user(subject.as_str()), places, asks }
}

fn place(item: &BatchItem) -> Place {
    Place {
        company: own_company(&item.object),
        module: None,
        object_type: Some(item.object.kind.clone()),
        object_id: Some(item.object.id.clone()),
        by_anchor: item.object.kind != "company_module",
    }
}

/// The equivalent `can` request of an item.
fn request(item: &BatchItem, place: Option<&PlaceFacts>) -> AccessRequest {
    let anchor = place.filter(|place| is_open(place)).and_then(|place| place.anchors.iter().min());
    let company = match item.object.kind.as_str() {
        "company_module" => own_company(&item.object),
        _ => anchor.and_then(|id| company_module(id)).map(|(company, _)| company),
    };
    AccessRequest {
        feature_key: String::new(),
        scope: Scope::Company,
        module_key: None,
        company_id: company,
        required_platform_role: None,
        allow_platform_operator_company_scope: false,
        required_company_role: None,
        object: Some(item.object.clone()),
        relation: Some(item.relation.clone()),
        correlation_id: None,
        actor_id: None,
        probe: false,
    }
}

/// Whether the subject has access to the company. Without it, the object's company stays hidden, as if there were none.
fn is_open(place: &PlaceFacts) -> bool {
    place.company_active == Some(true) && place.member_active == Some(true)
}

fn own_company(object: &ObjectRef) -> Option<CompanyId> {
    let own = (object.kind == "company_module").then(|| company_module(&object.id)).flatten();
    own.map(|(company, _)| company)
}
