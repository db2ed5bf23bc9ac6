//! The part of Keycloak's administration that the platform uses: account state, what happened to accounts, and the
//! signing keys. Only
//! the administration client's own token opens it, and the edge never forwards to it.

mod caller;
pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
