//! Reads: one record, its state, display data of many; subjects by name, and the subject of a service account.

pub(crate) mod http;
pub(crate) mod resolve;
pub(crate) mod rules;
pub(crate) mod service_account;
pub(crate) mod store;
