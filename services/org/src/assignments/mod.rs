//! Assignments: a member's term in a position. A position has at most one open term; a new one ends it.

pub(crate) mod http;
mod rules;
mod store;
