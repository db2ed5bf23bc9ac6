//! The interface of an engine: [`Engine`] answers each question with the facts of one moment. The types of lists and
//! explanations are here too.

use std::pin::Pin;
use std::sync::Arc;

use contract::decision::ObjectRef;
use contract::id::CompanyId;
use serde::{Deserialize, Serialize};

use crate::engine::facts::{Ask, Facts, Question, SubjectRef};
use crate::engine::model::Model;

/// Maximum number of (object, relation) pairs that one question visits. Past it the answer is "unknown", never a no.
pub const DEFAULT_BUDGET: i64 = 1_000_000;

/// A question could not be answered; the caller must refuse.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{dependency} cannot answer: {cause}")]
pub struct Unanswered {
    /// The dependency that failed.
    pub dependency: &'static str,
    /// What happened, for the log.
    pub cause: String,
}

/// A list request: the objects of one type that belong to one module in one company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The type.
    pub object_type: String,
    /// The relation that the subject must hold on them.
    pub relation: String,
    /// The company.
    pub company: CompanyId,
    /// The module or app that declared the type.
    pub module: String,
    /// The part of the list to return.
    pub window: Window,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of objects before the window.
    pub skip: usize,
    /// Maximum number of objects in the window.
    pub take: usize,
}

impl Window {
    /// The whole list.
    pub const ALL: Self = Self { skip: 0, take: usize::MAX };
}

/// A part of a list and the facts of the same moment.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The facts of the question.
    pub facts: Facts,
    /// The objects of the window, ordered by id.
    pub ids: Vec<String>,
    /// Total number of objects in the list.
    pub total: usize,
}

/// A portion of a summary: some of the subject's companies.
pub struct Portion<'a> {
    /// The subject.
    pub subject: SubjectRef,
    /// The companies, each one place of the facts.
    pub companies: &'a [CompanyId],
    /// The relations to ask for, which depend on the model of the moment.
    pub asks: &'a (dyn Fn(&Arc<Model>) -> Vec<Ask> + Send + Sync),
    /// The companies whose objects are listed, in ascending order; empty when another portion lists them.
    pub objects_of: &'a [CompanyId],
    /// Maximum number of the subject's own tuples on objects to look at.
    pub most_objects: usize,
}

/// A portion's facts and the subject's own tuples, from the same moment. Only enabled modules count.
#[derive(Clone, Debug)]
pub struct Summarized {
    /// The facts, including the requested relations.
    pub facts: Facts,
    /// The own tuples on modules in the portion's companies.
    pub tiers: Vec<OwnTuple>,
    /// The own tuples on objects of modules in the listed companies, among those looked at. An object belongs to the
    /// module and company of its only anchor; an object with several anchors belongs to none.
    pub objects: Vec<OwnTuple>,
    /// How many own tuples on objects were looked at.
    pub looked_at: usize,
}

/// A tuple that names the subject directly.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OwnTuple {
    /// The company that the object belongs to.
    pub company: CompanyId,
    /// The object.
    pub object: ObjectRef,
    /// The relation.
    pub relation: String,
}

/// A tree and the facts of the same moment.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The facts of the question, including its relations.
    pub facts: Facts,
    /// How the relation is derived; absent when no tuple names the object, the relation is unknown or nothing may be
    /// shown.
    pub tree: Option<Tree>,
}

/// How much a tree shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Every tuple that leads to the relation.
    All,
    /// For objects that the subject manages, every tuple; for other objects, only the tuples through which the subject
    /// holds the relation, because only managers may see whom an object is shared with. The root must be an object that
    /// the subject manages; otherwise there is no tree.
    Managed,
}

/// One relation on one object and how it is derived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tree {
    pub(crate) object: String,
    pub(crate) relation: String,
    pub(crate) held: bool,
    /// The tuple that gives the relation to the subject directly.
    pub(crate) tuple: Option<String>,
    /// The other tuples that the relation follows from.
    pub(crate) from: Vec<Branch>,
    /// Whether this node appears elsewhere in the tree, with its branches.
    pub(crate) repeated: bool,
    /// Whether branches were left out.
    pub(crate) truncated: bool,
}

/// A tuple that leads to another relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    pub(crate) tuple: String,
    pub(crate) to: Tree,
}

/// A pending answer.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unanswered>> + Send + 'a>>;

/// Answers questions, each from one moment that is not before the call.
pub trait Engine: Send + Sync {
    /// Reads the facts, including whether each requested relation is held.
    fn read<'a>(&'a self, question: &'a Question) -> Reading<'a, Facts>;

    /// Reads the facts and the requested objects of a listing.
    fn list<'a>(&'a self, question: &'a Question, listing: &'a Listing) -> Reading<'a, Listed>;

    /// Reads a portion of a summary.
    fn summarize<'a>(&'a self, portion: &'a Portion<'a>) -> Reading<'a, Summarized>;

    /// Reads a portion of a summary if that costs little more than a decision; `None` when it would cost more.
    fn summarize_cheaply<'a>(&'a self, portion: &'a Portion<'a>) -> Reading<'a, Option<Summarized>>;

    /// Reads the facts, including the requested relations, and why one relation is or is not held.
    fn explain<'a>(&'a self, question: &'a Question, ask: &'a Ask, shown: Shown) -> Reading<'a, Explained>;
}
