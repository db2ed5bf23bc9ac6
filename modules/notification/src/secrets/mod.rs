//! Signing secrets of webhooks: sealed in the database, shown to administrators, rotated with an overlap.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
