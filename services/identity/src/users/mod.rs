//! Reading records: one, its state, display data of many, and subjects by name.

pub(crate) mod http;
pub(crate) mod resolve;
pub(crate) mod rules;
pub(crate) mod store;
