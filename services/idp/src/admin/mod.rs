//! The part of Keycloak's administration that the platform uses: account state, what happened to accounts, which account
//! is a client's own, and the signing keys. The administration client's own token opens it; the
//! operator's credential opens accounts, and alone makes them and gives them passwords. The edge never forwards to it.

pub(crate) mod accounts;
mod caller;
pub(crate) mod clients;
pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
