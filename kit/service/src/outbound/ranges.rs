//! The addresses to which no user may make the platform connect. A pure table: everything except public unicast is
//! blocked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A range and its name for the log.
type Named<N> = (N, &'static str);

/// Blocked unless the operator allows it: the IPv4 special-purpose registry of IANA (RFC 6890 and successors).
const BLOCKED_V4: [Named<Ipv4Net>; 15] = [
    (v4([10, 0, 0, 0], 8), "private"),
    (v4([100, 64, 0, 0], 10), "carrier-grade NAT"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([172, 16, 0, 0], 12), "private"),
    (v4([192, 0, 0, 0], 24), "protocol assignments"),
    (v4([192, 0, 2, 0], 24), "documentation"),
    (v4([192, 88, 99, 0], 24), "6to4 relays"),
    (v4([192, 168, 0, 0], 16), "private"),
    (v4([198, 18, 0, 0], 15), "benchmarking"),
    (v4([198, 51, 100, 0], 24), "documentation"),
    (v4([203, 0, 113, 0], 24), "documentation"),
    (v4([0, 0, 0, 0], 8), "this network"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([240, 0, 0, 0], 4), "reserved and broadcast"),
];

/// The same for IPv6. Only `2000::/3` is assigned as public unicast: the three wide ranges at the end are its
/// complement and cover every range without a line of its own.
const BLOCKED_V6: [Named<Ipv6Net>; 15] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "IPv4-compatible"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "local NAT64"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discard"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "protocol assignments, Teredo, benchmarking"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "6to4"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "unique local"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 9), "link-local and site-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 3), "unassigned"),
    (v6([0x4000, 0, 0, 0, 0, 0, 0, 0], 2), "unassigned"),
    (v6([0x8000, 0, 0, 0, 0, 0, 0, 0], 1), "unassigned"),
];

/// Blocked even inside a range that the operator allows: no legitimate receiver is there, but the machine's credentials
/// may be.
const NEVER_V4: [Named<Ipv4Net>; 9] = [
    (v4([0, 0, 0, 0], 8), "this network"),
    (v4([100, 100, 100, 200], 32), "cloud metadata (Alibaba)"),
    (v4([168, 63, 129, 16], 32), "cloud metadata (Azure)"),
    (v4([169, 254, 169, 254], 32), "cloud metadata"),
    (v4([169, 254, 170, 2], 32), "cloud metadata (containers)"),
    (v4([169, 254, 170, 23], 32), "cloud metadata (pods)"),
    (v4([192, 0, 0, 192], 32), "cloud metadata (Oracle)"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([255, 255, 255, 255], 32), "broadcast"),
];

/// The same for IPv6.
const NEVER_V6: [Named<Ipv6Net>; 5] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), "cloud metadata (pods)"),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), "cloud metadata (AWS)"),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), "cloud metadata (Google)"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

/// The well-known NAT64 prefix (RFC 6052). An address in it is judged by its embedded IPv4 address, because on an
/// IPv6-only network every public IPv4 receiver has such an address.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// The verdict of the tables on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Public unicast.
    Public,
    /// Inside a range that the operator allows.
    Allowed,
    /// Inside this blocked range.
    Blocked(&'static str),
}

/// The address that is judged and dialled: an IPv4-mapped address becomes the IPv4 address.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Judges a canonical address.
pub(super) fn judge(address: IpAddr, allowed: &[IpNet]) -> Standing {
    let judged = embedded(address).unwrap_or(address);
    if let Some(range) = never(judged) {
        return Standing::Blocked(range);
    }
    if allowed.iter().any(|net| net.contains(&address)) {
        return Standing::Allowed;
    }
    blocked(judged).map_or(Standing::Public, Standing::Blocked)
}

fn embedded(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

fn never(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => NEVER_V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, name)| *name),
        IpAddr::V6(address) => NEVER_V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, name)| *name),
    }
}

fn blocked(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            BLOCKED_V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, name)| *name)
        }
        IpAddr::V6(address) => {
            BLOCKED_V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, name)| *name)
        }
    }
}

const fn v4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), prefix)
}

const fn v6(groups: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from_segments(groups), prefix)
}
