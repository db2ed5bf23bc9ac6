//! Approvers: each member has at most one. A change also applies to the member's weeks that wait for a decision, so
//! that none waits for someone who left.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
