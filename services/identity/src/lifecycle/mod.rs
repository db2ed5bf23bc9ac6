//! A subject's lifecycle on this platform, independent of its account's state at the provider.

pub(crate) mod http;
pub(crate) mod rules;
mod store;
