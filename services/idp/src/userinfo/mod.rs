//! Who an access token speaks for, as its user is now: the one place where a token is asked for its session.

pub(crate) mod http;
mod store;
