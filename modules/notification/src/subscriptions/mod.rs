//! Subscriptions: a member has a channel's messages sent to an address.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
