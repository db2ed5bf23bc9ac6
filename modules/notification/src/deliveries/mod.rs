//! The delivery log for administrators, and replays of dead deliveries.

pub(crate) mod http;
mod list;
pub(crate) mod replay;
pub mod rules;
mod store;
