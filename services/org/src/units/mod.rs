//! Units: companies and everything below them.

pub mod http;
pub(crate) mod rules;
pub(crate) mod store;
