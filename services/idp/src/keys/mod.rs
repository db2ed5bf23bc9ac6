//! The keys that the provider signs with: made once, kept in the database, held in memory while serving.

pub(crate) mod rules;
pub(crate) mod store;
