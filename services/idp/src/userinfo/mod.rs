//! The current data of the user behind an access token. This is the only route that checks an access token's session.

pub(crate) mod http;
mod store;
