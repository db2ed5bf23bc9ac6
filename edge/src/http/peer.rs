//! The client's end of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The client's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) scheme: Scheme,
}

/// The scheme of the listener that the client used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The client behind an address: an IPv6 client owns a whole /64.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(wide) => IpAddr::V6(Ipv6Addr::from(u128::from(wide) >> 64 << 64)),
        narrow @ IpAddr::V4(_) => narrow,
    }
}
