//! A member's week: which weeks are open, what the current submission of one says, and the lock that keeps recording
//! and submitting apart. It has no routes of its own.

pub mod rules;
pub(crate) mod store;
