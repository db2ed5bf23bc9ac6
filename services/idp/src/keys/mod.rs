//! The keys that the provider signs with: stored in the database, cached in memory while serving, and rotated
//! (`rotation.rs`).

pub(crate) mod rotation;
pub(crate) mod rules;
pub(crate) mod store;
