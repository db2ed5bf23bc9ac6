//! What is said about a ticket: to everybody who may view it, or among those who work on tickets.

pub(crate) mod http;
pub mod rules;
mod store;
