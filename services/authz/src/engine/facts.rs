//! The input of a decision: the [`Question`] put to an engine and the [`Facts`] it answers with. The facts of steps 1
//! to 6 and the relations of step 7 come from one moment of the database, so that no decision uses a state that never
//! existed. The steps (`decision/steps.rs`) only read them; nothing here does I/O.

use std::sync::Arc;

use contract::decision::{ObjectRef, SUPERADMIN};
use contract::grants::SYSTEM_ID;
use contract::id::{CompanyId, parse_uuid};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::engine::model::Model;

/// The subject of a relation: an object or, with a relation, every holder of that relation on the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubjectRef {
    /// `user`, `group`, …
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Empty for the object itself.
    pub relation: String,
}

impl SubjectRef {
    /// A subject of the identity provider.
    #[must_use]
    pub fn user(subject: &str) -> Self {
        Self { kind: "user".to_owned(), id: subject.to_owned(), relation: String::new() }
    }
}

/// A query for one relation on one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The object.
    pub object: ObjectRef,
    /// The relation.
    pub relation: String,
}

impl Ask {
    /// Asks for a relation on an object.
    #[must_use]
    pub fn new(object: ObjectRef, relation: &str) -> Self {
        Self { object, relation: relation.to_owned() }
    }

    /// The relation behind a platform role; `None` when there is no such role, so that it has no holder.
    #[must_use]
    pub fn platform_role(role: &str) -> Option<Self> {
        let system = ObjectRef { kind: "system".to_owned(), id: SYSTEM_ID.to_owned() };
        (role == SUPERADMIN).then(|| Self::new(system, "superadmin"))
    }

    /// The relation behind a company role, which is a relation on the company.
    #[must_use]
    pub fn company_role(company: CompanyId, role: &str) -> Self {
        Self::new(ObjectRef { kind: "company".to_owned(), id: company.to_string() }, role)
    }
}

/// The module whose state decides: the one that the question names, or else the module of its object. The module of a
/// `company_module` is in its id; any other type belongs to its owner. `None` when no module's state matters. Every
/// kind of question uses this rule.
#[must_use]
pub fn deciding_module<'a>(
    model: &'a Model,
    named: Option<&'a str>,
    object: Option<(&'a str, &'a str)>,
) -> Option<&'a str> {
    let of_object = || match object? {
        ("company_module", id) => company_module(id).map(|(_, key)| key),
        (kind, _) => model.owner(kind),
    };
    named.or_else(of_object)
}

/// Parses the company and the module key from the id of a `company_module` object.
pub(crate) fn company_module(id: &str) -> Option<(CompanyId, &str)> {
    let (company, key) = id.split_once('/')?;
    Some((CompanyId::from(parse_uuid(company)?), key))
}

/// The rows that one decision reads from the database: of one company, one module and one object.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    /// Company whose state and membership are read.
    pub company: Option<CompanyId>,
    /// Module whose state is read; without it, [`deciding_module`] chooses.
    pub module: Option<String>,
    /// Type of the object whose anchors are read.
    pub object_type: Option<String>,
    /// Id of that object.
    pub object_id: Option<String>,
    /// Whether the company is taken from the object's anchor.
    pub by_anchor: bool,
}

impl Place {
    /// The module whose state is read.
    #[must_use]
    pub fn module_by<'a>(&'a self, model: &'a Model) -> Option<&'a str> {
        let object = self.object_type.as_deref().zip(self.object_id.as_deref());
        deciding_module(model, self.module.as_deref(), object)
    }
}

/// Everything to read about one subject at one moment.
#[derive(Clone, Debug)]
pub struct Question {
    /// The subject.
    pub subject: SubjectRef,
    /// One place per decision.
    pub places: Vec<Place>,
    /// The relations that any of the decisions may need.
    pub asks: Vec<Ask>,
}

/// Whether a relation is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The relation is held.
    Yes,
    /// The relation is not held.
    No,
    /// The search exceeded its budget; must never be read as a no.
    Unknown,
}

/// The subject's identity record.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectFacts {
    /// Whether the account was enabled at identity's last poll of the provider.
    pub idp_enabled: bool,
    /// `active`, `suspended` or `closed`.
    pub lifecycle: String,
}

/// A module or app of the catalog.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFacts {
    /// Whether it is installed; always true for apps.
    pub installed: bool,
    /// Whether it is enabled.
    pub enabled: bool,
}

/// The rows of one [`Place`]; a missing row is `None`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceFacts {
    /// Whether the company is active.
    pub company_active: Option<bool>,
    /// Whether the subject's membership in the company is active.
    pub member_active: Option<bool>,
    /// The state of the module.
    pub module: Option<ModuleFacts>,
    /// Ids of the `company_module` objects that the object is anchored to.
    pub anchors: Vec<String>,
}

/// The answer to a [`Question`], all from one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The model that decided the relations.
    pub model: Arc<Model>,
    /// The database's snapshot of that moment.
    pub snapshot: String,
    /// Seconds since identity's last complete poll of the provider; `None` before the first.
    pub look_age_s: Option<f64>,
    /// The identity record, if there is one.
    pub subject: Option<SubjectFacts>,
    /// In the order of the question's places.
    pub places: Vec<PlaceFacts>,
    /// The requested relations.
    pub held: HashMap<Ask, Held>,
    /// Why each held relation is held; the SQL engine leaves this empty.
    pub paths: HashMap<Ask, Path>,
}

/// The chain of tuples that satisfied a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The first tuples of the chain.
    pub text: String,
    /// Whether the text was cut.
    pub is_cut: bool,
}

impl Facts {
    /// Whether the subject holds a relation. A relation that the question left out is unknown, which is never a yes.
    #[must_use]
    pub fn holds(&self, ask: &Ask) -> Held {
        self.held.get(ask).copied().unwrap_or(Held::Unknown)
    }
}
