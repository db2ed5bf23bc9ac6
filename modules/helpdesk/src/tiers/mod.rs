//! What the caller may do in the module, in a company.

pub(crate) mod http;
pub mod rules;
