//! Whether deliveries to a channel arrive, and what happens to a channel to which nothing does.

pub(crate) mod disable;
pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
