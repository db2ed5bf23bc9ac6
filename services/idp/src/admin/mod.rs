//! The part of Keycloak's administration that the platform uses: account state, events of accounts, the service
//! accounts of clients, and the signing keys. The administration client's token opens all of it except adding accounts
//! and setting their credentials, which requires the operator's credential; that credential opens accounts only. The
//! gateway never forwards to these routes.

pub(crate) mod accounts;
mod caller;
pub(crate) mod clients;
pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
