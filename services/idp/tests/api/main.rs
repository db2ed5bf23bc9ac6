//! The provider from outside: over HTTP, on a fresh database, as the role it has in production. Every answer is checked
//! against `openapi.json`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that finds something else than it expects has failed"
)]

mod admin;
mod clients;
mod documents;
mod exchange;
mod guessing;
mod login;
mod logout;
mod outage;
mod provider;
mod redirects;
mod refresh;
mod restart;
mod rotation;
mod sessions;
mod userinfo;
