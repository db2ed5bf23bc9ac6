//! What a decision rests on: the [`Question`] that is put to an engine and the [`Facts`] it answers with. The facts of
//! steps 1 to 6 and the relations of step 7 come from one moment of the database, so that no decision rests on a state
//! that never was. The steps (`decision/steps.rs`) only read them; nothing here does I/O.

use std::sync::Arc;

use contract::decision::{ObjectRef, SUPERADMIN};
use contract::grants::SYSTEM_ID;
use contract::id::{CompanyId, parse_uuid};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::engine::model::Model;

/// Who holds a relation: an object, or (with a relation) whoever holds that relation on it.
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

/// One relation that may be held on one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The object.
    pub object: ObjectRef,
    /// The relation.
    pub relation: String,
}

impl Ask {
    /// On any object.
    #[must_use]
    pub fn new(object: ObjectRef, relation: &str) -> Self {
        Self { object, relation: relation.to_owned() }
    }

    /// The relation behind a platform role; `None`: there is no such role, so nobody holds it.
    #[must_use]
    pub fn platform_role(role: &str) -> Option<Self> {
        let system = ObjectRef { kind: "system".to_owned(), id: SYSTEM_ID.to_owned() };
        (role == SUPERADMIN).then(|| Self::new(system, "superadmin"))
    }

    /// A company role is a relation of the company.
    #[must_use]
    pub fn company_role(company: CompanyId, role: &str) -> Self {
        Self::new(ObjectRef { kind: "company".to_owned(), id: company.to_string() }, role)
    }
}

/// The module whose state decides: the one that a question names, else the one of the object that it asks about, which is
/// the module of a `company_module` and the owner of any other type. This is the only place that knows it, for every kind of
/// question. `None`: no module has a say.
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

/// Company and module of a `company_module` object's id.
pub(crate) fn company_module(id: &str) -> Option<(CompanyId, &str)> {
    let (company, key) = id.split_once('/')?;
    Some((CompanyId::from(parse_uuid(company)?), key))
}

/// What is asked of the database for one decision: the rows of one company, one module and one object.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    /// Company whose state and membership are read.
    pub company: Option<CompanyId>,
    /// Module whose state is read; without it [`deciding_module`] tells.
    pub module: Option<String>,
    /// Feature key that the module, when it is an app, must have declared.
    pub feature: Option<String>,
    /// Type of the object whose anchors are read.
    pub object_type: Option<String>,
    /// Id of that object.
    pub object_id: Option<String>,
    /// The company is the one of the object's anchor.
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

/// Everything that is read for one subject at one moment.
#[derive(Clone, Debug)]
pub struct Question {
    /// Who.
    pub subject: SubjectRef,
    /// One for each decision.
    pub places: Vec<Place>,
    /// The relations that any of the decisions may need.
    pub asks: Vec<Ask>,
}

/// Whether a relation is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The search was given up at its budget; never to be read as a no.
    Unknown,
}

/// The subject's identity record.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectFacts {
    /// As of the last look at the provider.
    pub idp_enabled: bool,
    /// `active`, `suspended`, `closed`.
    pub lifecycle: String,
}

/// A module or app of the catalog.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFacts {
    /// Apps always are.
    pub installed: bool,
    /// Whether it may be used.
    pub enabled: bool,
    /// False only for an app that did not declare the feature key of the place.
    pub knows_feature: bool,
}

/// The rows of one [`Place`]; what does not exist is `None`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceFacts {
    /// The company's flag.
    pub company_active: Option<bool>,
    /// The flag of the subject's member row in it.
    pub member_active: Option<bool>,
    /// The module.
    pub module: Option<ModuleFacts>,
    /// Ids of the `company_module` objects that the object is anchored to.
    pub anchors: Vec<String>,
}

/// The answer to a [`Question`], all of one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The model that the relations were decided by.
    pub model: Arc<Model>,
    /// The database's snapshot of that moment.
    pub snapshot: String,
    /// Seconds since identity's last complete look at the provider; `None`: it never looked.
    pub look_age_s: Option<f64>,
    /// `None`: no identity record.
    pub subject: Option<SubjectFacts>,
    /// In the order of the question's places.
    pub places: Vec<PlaceFacts>,
    /// The relations that were asked about.
    pub held: HashMap<Ask, Held>,
    /// Why each relation that is held is; the SQL engine tells none.
    pub paths: HashMap<Ask, Path>,
}

/// The tuples that satisfied a relation, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The first of them.
    pub text: String,
    /// There are more.
    pub is_cut: bool,
}

impl Facts {
    /// Whether the subject holds a relation. One that was not asked about is unknown, which is never a yes.
    #[must_use]
    pub fn holds(&self, ask: &Ask) -> Held {
        self.held.get(ask).copied().unwrap_or(Held::Unknown)
    }
}
