//! Weeks of members: which are open, a week's current submission, and the lock that serializes recording and
//! submitting. There are no routes.

pub mod rules;
pub(crate) mod store;
