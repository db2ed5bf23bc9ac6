//! The authorization engine: given a question, the facts of one moment and who holds what. [`Engine`] is the seam: the
//! SQL engine (`sql.rs`) asks the database everything in one statement and is always exact; an engine that keeps the
//! graph in memory answers the same questions behind the same trait. The validated model (`model.rs`), its source
//! (`source.rs`) and the evaluator are separate files. An engine decides no step and knows no reason.

mod model;
mod source;
mod sql;

use std::pin::Pin;

use crate::facts::{Facts, Question};

pub use model::{Known, Model};
pub use source::Models;
pub use sql::{DEFAULT_BUDGET, SqlEngine};

/// A question could not be answered; the caller must refuse.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{dependency} cannot answer: {cause}")]
pub struct Unanswered {
    /// Which dependency.
    pub dependency: &'static str,
    /// What happened, for the log.
    pub cause: String,
}

/// An answer that is being read.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Facts, Unanswered>> + Send + 'a>>;

/// Answers questions.
pub trait Engine: Send + Sync {
    /// The facts of one moment, not before the call.
    fn read<'a>(&'a self, question: &'a Question) -> Reading<'a>;
}
