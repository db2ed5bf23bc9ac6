//! A person's way out: the session of an ID token or of a refresh token ends. The provider keeps no login in the
//! browser, so there is nothing else to end, and a request that names no session ends none.

pub(crate) mod http;
mod rules;
