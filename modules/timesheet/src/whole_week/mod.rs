//! A member's week saved whole: all its rows in one transaction, or one report of everything that is wrong with them.

pub(crate) mod http;
pub mod rules;
mod store;
