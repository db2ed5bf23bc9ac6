//! Saves a member's whole week: all its rows in one transaction, or one report of everything wrong with them.

pub(crate) mod http;
pub mod rules;
mod store;
