//! Entries: the hours that a member records, one entry per project and day, always the caller's own.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
