//! Members who have a channel's messages sent to an address of theirs.

pub(crate) mod http;
pub mod rules;
mod store;
