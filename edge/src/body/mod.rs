//! Bodies of requests: `request` is a client's body over either protocol, `upload` the body sent to the upstream.

pub(crate) mod h2;
pub(crate) mod request;
pub(crate) mod upload;
