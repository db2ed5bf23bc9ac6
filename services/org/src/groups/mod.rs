//! Groups of companies and who is in them. Only groups of source `platform` are changed here; others belong to whoever
//! brought them in.

pub(crate) mod http;
pub(crate) mod members;
mod rules;
mod store;
