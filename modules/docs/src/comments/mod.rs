//! Comments on a document, each open until somebody who may comment resolves it.

pub(crate) mod http;
pub mod rules;
mod store;
