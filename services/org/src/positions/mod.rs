//! Positions of companies. Their holders are recorded as assignments.

pub(crate) mod http;
mod rules;
mod store;
