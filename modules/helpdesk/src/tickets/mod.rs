//! Tickets: what members ask for, and who works on it.

pub(crate) mod assign;
pub(crate) mod http;
pub(crate) mod list;
pub(crate) mod move_status;
pub(crate) mod names;
pub mod rules;
pub(crate) mod search;
pub(crate) mod store;
pub(crate) mod viewer;
mod words;
