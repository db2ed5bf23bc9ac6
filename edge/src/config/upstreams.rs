//! The configured protocol and capacity of an upstream.

/// The protocol of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UpstreamProtocol {
    #[default]
    Http1,
    /// HTTP/1.1 with TLS.
    Https,
    /// HTTP/2 without TLS, from the first byte.
    H2c,
}

/// How many concurrent requests an upstream takes, and the percentage of them that one client may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) requests: usize,
    pub(crate) share: usize,
}
