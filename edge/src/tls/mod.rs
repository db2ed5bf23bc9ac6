//! Certificates and their reload, tickets, the authorities of upstreams, and the layers between TLS and a socket.

pub(crate) mod authorities;
pub(crate) mod certificates;
pub(crate) mod expiry;
pub(crate) mod hello;
pub(crate) mod names;
pub(crate) mod records;
pub(crate) mod sending;

/// ALPN name of HTTP/2.
pub(crate) const ALPN_H2: &[u8] = b"h2";
/// ALPN name of HTTP/1.1.
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";
