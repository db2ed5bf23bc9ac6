//! The authorization engine: answers a question with the facts of one moment, including who holds what (`facts.rs`).
//! [`Engine`] (`answers.rs`) is the interface. The SQL engine (`sql/`) asks the database everything in one statement
//! and is always exact. The memory engine (`memory/`) keeps the graph of all tuples (`graph/`), follows the change log
//! (`feed/`) and answers the same questions. Both share the validated model (`model.rs`) and its source (`source.rs`).
//! An engine decides no step and knows no reason.

mod answers;
mod database;
pub mod facts;
mod feed;
mod graph;
mod memory;
mod model;
mod source;
mod sql;

pub use answers::{
    Branch, DEFAULT_BUDGET, Engine, Explained, Listed, Listing, OwnTuple, Portion, Reading, Shown,
    Summarized, Tree, Unanswered, Window,
};
pub use database::SETTINGS;
pub use graph::TupleRow;
pub use graph::fixed::FixedGraph;
pub use graph::words::Full;
pub use memory::MemoryEngine;
pub use model::{Enabled, Known, Model};
pub use source::Models;
pub use sql::SqlEngine;
