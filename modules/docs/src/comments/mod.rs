//! Comments on a document; anyone who may comment may resolve an open one.

pub(crate) mod http;
pub mod rules;
mod store;
