//! Who approves whose weeks: at most one approver a member. A change reaches the weeks that wait for a decision, so that
//! nothing hangs on someone who left.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
