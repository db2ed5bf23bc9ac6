//! Groups of companies and their members. Only groups with the source `platform` can be changed here; the others belong
//! to the system that imported them.

pub(crate) mod http;
pub(crate) mod members;
mod rules;
mod store;
