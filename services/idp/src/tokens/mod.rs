//! The token route: `client_auth.rs` authenticates the client, each grant has its own file (`code.rs`, `refresh.rs`,
//! `credentials.rs`), `claims.rs` builds the claims, `issue.rs` signs the tokens, and `hint.rs` reads an ID token that
//! comes back.

pub(crate) mod claims;
pub(crate) mod client_auth;
mod code;
mod credentials;
pub(crate) mod hint;
pub(crate) mod http;
mod issue;
mod refresh;
pub(crate) mod scope;
pub(crate) mod store;
