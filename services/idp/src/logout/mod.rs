//! Logout: ends the session of an ID token or a refresh token together with its browser session, or the session of the
//! browser that sent the request.

pub(crate) mod http;
mod rules;
