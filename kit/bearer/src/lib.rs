//! Bearer verification for the gateway and every service: checks a request's token against the provider's signing keys
//! and returns [`Claims`] or a [`Refused`]. The path of a token: [`token_of`] (headers) → [`Verifier::verify`]
//! (`verifier.rs`) → key by `kid` (`keys.rs`, fetched by `fetch.rs`, kept fresh by `refresh.rs`) → signature
//! (`crypto.rs`) → claims (`claims.rs`); `verified.rs` caches successful results. This crate knows no routes or status
//! codes and decides nothing about permissions: a token's roles and groups are never read.

mod claims;
mod config;
mod crypto;
mod fetch;
mod headers;
mod keys;
mod refresh;
mod refused;
mod verified;
mod verifier;

pub use claims::Claims;
pub use config::{AUDIENCE, BearerConfig, ISSUER_URL, JWKS_URL, REFRESH_INTERVAL, VARIABLES};
pub use headers::{raw_token_of, token_of};
pub use refused::{EXPIRED, Refused};
pub use verified::VerifiedTokens;
pub use verifier::Verifier;
