//! Many pairs of object and relation at once: one question, one moment, the same steps for each. An item names no company;
//! it is the one of its `company_module` object, else of the object's anchor, and without either the item is denied.

use contract::Subject;
use contract::decision::{AccessRequest, Decision, MAX_NAME, ObjectRef, Scope};
use contract::fields::{Fields, FromBody, Text};

use super::reason::Undecided;
use super::steps::{self, Case};
use crate::engine::Engine;
use crate::facts::{Ask, Place, PlaceFacts, Question, SubjectRef};

/// One pair.
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

/// Decides every item, in their order.
///
/// # Errors
/// One of them cannot be decided now, so none is answered.
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
    let own = own_module(&item.object);
    Place {
        company: own.as_ref().map(|(company, _)| *company),
        module: own.map(|(_, key)| key.to_owned()),
        feature: None,
        object_type: Some(item.object.kind.clone()),
        object_id: Some(item.object.id.clone()),
        by_anchor: item.object.kind != "company_module",
    }
}

/// The request that `can` would be asked for this item.
fn request(item: &BatchItem, place: Option<&PlaceFacts>) -> AccessRequest {
    let anchor = place.and_then(|place| place.anchors.iter().min());
    let belongs = match item.object.kind.as_str() {
        "company_module" => own_module(&item.object),
        _ => anchor.and_then(|id| steps::company_module(id)),
    };
    AccessRequest {
        feature_key: String::new(),
        scope: Scope::Company,
        module_key: belongs.map(|(_, key)| key.to_owned()),
        company_id: belongs.map(|(company, _)| company),
        required_platform_role: None,
        allow_platform_operator_company_scope: false,
        required_company_role: None,
        object: Some(item.object.clone()),
        relation: Some(item.relation.clone()),
        correlation_id: None,
        actor_id: None,
    }
}

fn own_module(object: &ObjectRef) -> Option<(contract::id::CompanyId, &str)> {
    (object.kind == "company_module").then(|| steps::company_module(&object.id)).flatten()
}
