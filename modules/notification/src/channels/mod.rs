//! Where messages go: an in-app list, addresses, or a webhook.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
