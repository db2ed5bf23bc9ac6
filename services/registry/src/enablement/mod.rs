//! Enabling and disabling modules and apps, for the whole deployment.

pub(crate) mod http;
mod rules;
mod store;
