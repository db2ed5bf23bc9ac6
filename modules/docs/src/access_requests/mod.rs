//! Requests for access: a member who cannot open a document asks those who may share it.

pub(crate) mod http;
mod met;
pub mod rules;
pub(crate) mod store;
