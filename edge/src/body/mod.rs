//! Bodies of requests: `request` is a client's body whichever protocol brings it, `upload` what goes to the upstream.

pub(crate) mod h2;
pub(crate) mod request;
pub(crate) mod upload;
