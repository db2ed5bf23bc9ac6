//! Bearer verification for the edge and every service: the token of a request, checked against the provider's signing
//! keys, becomes [`Claims`] or a [`Refused`]. The way of a token: [`token_of`] (headers) → [`Verifier::verify`]
//! (`verifier.rs`) → key by `kid` (`keys.rs`, fetched by `fetch.rs`, kept fresh by `refresh.rs`) → signature
//! (`crypto.rs`) → claims (`claims.rs`); `verified.rs` remembers the good answers. It knows nothing of routes or
//! status codes, and decides nothing about rights: a token's roles and groups are never read.

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
