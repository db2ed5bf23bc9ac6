//! Tasks: create, read, replace and delete. Each task's tuples decide who may do what with it.

pub(crate) mod http;
pub mod rules;
mod store;
