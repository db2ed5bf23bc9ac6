//! The API tests of identity: the service as it runs, as its own database role, against a fresh database; the provider's
//! admin routes are scripted. Every answer is checked against `openapi.json`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
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
