//! What an engine is: [`Engine`] answers questions, with the facts of one moment, and what it answers lists and explanations
//! with.

use std::pin::Pin;

use contract::id::CompanyId;
use serde::Serialize;

use crate::engine::facts::{Ask, Facts, Question};

/// Most (object, relation) pairs that one question visits. Past it the answer is "cannot say", never a no.
pub const DEFAULT_BUDGET: i64 = 1_000_000;

/// A question could not be answered; the caller must refuse.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{dependency} cannot answer: {cause}")]
pub struct Unanswered {
    /// Which dependency.
    pub dependency: &'static str,
    /// What happened, for the log.
    pub cause: String,
}

/// What is to be listed: the objects of one type that belong to one module in one company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The type.
    pub object_type: String,
    /// The relation that the subject holds on them.
    pub relation: String,
    /// The company.
    pub company: CompanyId,
    /// The module or app that declared the type.
    pub module: String,
    /// What of the list is wanted.
    pub window: Window,
}

/// Part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Objects before it.
    pub skip: usize,
    /// Most objects in it.
    pub take: usize,
}

impl Window {
    /// The whole list.
    pub const ALL: Self = Self { skip: 0, take: usize::MAX };
}

/// Part of a list and the facts of its moment.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The facts of the question.
    pub facts: Facts,
    /// The objects of the window, by id.
    pub ids: Vec<String>,
    /// How many objects the list has.
    pub total: usize,
}

/// A tree and the facts of its moment.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The facts of the question, its relations among them.
    pub facts: Facts,
    /// What the relation follows from; absent when the object is in no tuple, the relation is not known or none may be shown.
    pub tree: Option<Tree>,
}

/// How much a tree shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Every tuple that leads on.
    All,
    /// Those of the objects that the subject manages, and of others those by which it holds the relation itself: whom an
    /// object is shared with is for its managers. There is no tree of an object that it does not manage.
    Managed,
}

/// One relation of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tree {
    pub(crate) object: String,
    pub(crate) relation: String,
    pub(crate) held: bool,
    /// The tuple by which the subject holds it itself.
    pub(crate) tuple: Option<String>,
    /// What it follows from besides.
    pub(crate) from: Vec<Branch>,
    /// It stands elsewhere in the tree with what it follows from.
    pub(crate) repeated: bool,
    /// There is more that it follows from.
    pub(crate) truncated: bool,
}

/// A tuple that leads on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    pub(crate) tuple: String,
    pub(crate) to: Tree,
}

/// An answer that is being read.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unanswered>> + Send + 'a>>;

/// Answers questions, each by one moment that is not before the call.
pub trait Engine: Send + Sync {
    /// The facts, and who holds what was asked about.
    fn read<'a>(&'a self, question: &'a Question) -> Reading<'a, Facts>;

    /// The facts, and the wanted objects of a listing.
    fn list<'a>(&'a self, question: &'a Question, listing: &'a Listing) -> Reading<'a, Listed>;

    /// The facts, who holds what was asked about, and why one relation is held or not.
    fn explain<'a>(&'a self, question: &'a Question, ask: &'a Ask, shown: Shown) -> Reading<'a, Explained>;
}
