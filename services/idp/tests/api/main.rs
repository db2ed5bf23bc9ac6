//! API tests of the provider: over HTTP, on a fresh database, with its production role. Every response is checked
//! against `openapi.json`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that finds something else than it expects has failed"
)]

mod account;
mod accounts;
mod admin;
mod authenticator;
mod browser;
mod clients;
mod documents;
mod exchange;
mod forgetting;
mod guessing;
mod letters;
mod login;
mod logout;
mod meanwhile;
mod outage;
mod passkeys;
mod provider;
mod redirects;
mod refresh;
mod restart;
mod rotation;
mod second_factor;
mod sessions;
mod userinfo;
