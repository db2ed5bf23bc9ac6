//! The token route: `client_auth.rs` tells who asks, one file a grant (`code.rs`, `refresh.rs`, `credentials.rs`),
//! `claims.rs` says what tokens hold, `issue.rs` signs them.

pub(crate) mod claims;
pub(crate) mod client_auth;
mod code;
mod credentials;
pub(crate) mod http;
mod issue;
mod refresh;
pub(crate) mod scope;
pub(crate) mod store;
