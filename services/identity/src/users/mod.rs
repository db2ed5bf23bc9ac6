//! Reading records: one, its state, display data of many; subjects by name, and of a client's own account.

pub(crate) mod http;
pub(crate) mod resolve;
pub(crate) mod rules;
pub(crate) mod service_account;
pub(crate) mod store;
