//! Versions: full copies of a document's title and text, added and never changed.

pub(crate) mod http;
pub mod rules;
mod store;
