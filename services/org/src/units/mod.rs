//! Units: companies and the units below them.

pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
