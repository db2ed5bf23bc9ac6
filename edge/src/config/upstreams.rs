//! What is configured of an upstream: its protocol and its capacity.

/// What an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UpstreamProtocol {
    #[default]
    Http1,
    /// HTTP/1.1 with TLS.
    Https,
    /// HTTP/2 without TLS, from the first byte.
    H2c,
}

/// How many requests an upstream takes at once, and how many per cent of them may be one client's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) requests: usize,
    pub(crate) share: usize,
}
