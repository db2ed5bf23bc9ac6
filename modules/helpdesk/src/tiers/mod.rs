//! Tiers: what the caller may do in a company's module.

pub(crate) mod http;
pub mod rules;
