//! What members ask for and who works on it.

pub(crate) mod http;
pub mod rules;
mod store;
