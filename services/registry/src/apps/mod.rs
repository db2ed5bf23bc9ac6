//! Registering and updating apps: a manifest that is checked whole before anything is written.

pub(crate) mod http;
pub mod rules;
mod store;
mod verdict;
