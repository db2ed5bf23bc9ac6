//! Assignments: a member's terms in a position. A position has at most one open term; a new term ends the open one.

pub(crate) mod http;
mod rules;
mod store;
