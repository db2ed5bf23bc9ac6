//! Channels: where messages go. A channel is an in-app list, an e-mail list or a webhook.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
