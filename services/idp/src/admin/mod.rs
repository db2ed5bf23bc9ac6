//! The part of Keycloak's administration that the platform uses: account state, what happened to accounts, which account
//! is a client's own, and the signing keys. Only the administration client's own token opens it, and the edge never
//! forwards to it.

mod caller;
pub(crate) mod clients;
pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
