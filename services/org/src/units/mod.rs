//! Units: companies and everything below them.

pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
