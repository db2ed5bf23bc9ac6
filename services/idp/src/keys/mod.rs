//! The keys that the provider signs with: kept in the database, held in memory while serving, replaced from time to
//! time (`rotation.rs`).

pub(crate) mod rotation;
pub(crate) mod rules;
pub(crate) mod store;
