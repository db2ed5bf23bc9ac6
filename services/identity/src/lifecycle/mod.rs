//! A subject's lifecycle on this platform, whatever the provider says of its account.

pub(crate) mod http;
pub(crate) mod rules;
mod store;
