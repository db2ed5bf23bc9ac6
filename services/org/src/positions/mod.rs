//! Positions of companies. Who holds one is an assignment.

pub(crate) mod http;
mod rules;
mod store;
