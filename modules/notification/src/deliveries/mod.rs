//! The log of deliveries for administrators, and replays of those that died.

pub(crate) mod http;
mod list;
pub(crate) mod replay;
pub mod rules;
mod store;
