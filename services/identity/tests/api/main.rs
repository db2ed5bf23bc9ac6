//! API tests of identity: the service runs with its own database role on a fresh database; the provider's admin routes
//! are scripted. Every response is checked against `openapi.json`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that finds something else than it expects has failed"
)]

mod closing;
mod guards;
mod histories;
mod lifecycle;
mod look;
mod provider;
mod provision;
mod reconcile;
mod resolve;
mod service_accounts;
mod support;
mod users;
