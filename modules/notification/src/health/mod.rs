//! Health of channels: whether deliveries arrive, and disabling a channel when none do.

pub(crate) mod disable;
pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
