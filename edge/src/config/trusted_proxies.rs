//! Trusted proxies: the networks whose `X-Forwarded-*` headers count (`PLATFORM_TRUSTED_PROXIES`).

use std::net::{IpAddr, Ipv6Addr};

/// Networks as address and prefix length, all in IPv6 form, so that an IPv4-mapped peer matches its IPv4 network.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Vec<(u128, u32)>);

impl TrustedProxies {
    /// Adds `address/prefix` or a single address; `false` if the text is neither, or if the address has bits set after
    /// the prefix: `10.0.0.1/8` may mean a host or a network.
    pub(crate) fn add(&mut self, text: &str) -> bool {
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let Ok(address) = address.parse::<IpAddr>() else { return false };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(bits), |prefix| prefix.parse().ok().filter(|prefix| *prefix <= bits));
        let Some(prefix) = prefix else { return false };
        let (network, prefix) = (number(address), prefix + 128 - bits);
        let is_network = network & mask(prefix) == network;
        if is_network {
            self.0.push((network, prefix));
        }
        is_network
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contain(&self, peer: IpAddr) -> bool {
        let peer = number(peer);
        self.0.iter().any(|(network, prefix)| *network == peer & mask(*prefix))
    }
}

/// A mask of the first `prefix` of 128 bits.
fn mask(prefix: u32) -> u128 {
    // For a prefix of 0 `checked_shl` returns `None`, because it would shift by 128 bits.
    u128::MAX.checked_shl(128 - prefix).unwrap_or(0)
}

fn number(address: IpAddr) -> u128 {
    let wide: Ipv6Addr = match address {
        IpAddr::V4(narrow) => narrow.to_ipv6_mapped(),
        IpAddr::V6(wide) => wide,
    };
    u128::from(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(networks: &[&str], peer: &str) -> bool {
        let mut trusted = TrustedProxies::default();
        assert!(networks.iter().all(|network| trusted.add(network)));
        trusted.contain(peer.parse().expect("an address"))
    }

    #[test]
    fn a_peer_is_trusted_inside_a_network_only() {
        assert!(trusts(&["10.0.0.0/8"], "10.255.0.1"));
        assert!(!trusts(&["10.0.0.0/8"], "11.0.0.1"));
        assert!(trusts(&["127.0.0.1"], "::ffff:127.0.0.1"));
        assert!(trusts(&["0.0.0.0/0"], "203.0.113.9"));
        assert!(!trusts(&["0.0.0.0/0"], "2001:db8::1"));
        assert!(trusts(&["2001:db8::/32", "192.168.0.0/16"], "2001:db8:1::1"));
        assert!(trusts(&["::/0"], "2001:db8::1"));
        assert!(!trusts(&[], "127.0.0.1"));
    }

    #[test]
    fn what_is_no_network_is_not_added() {
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "host",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "10.0.0.1/8",
            "0.0.0.1/0",
            "2001:db8::1/64",
        ] {
            assert!(!TrustedProxies::default().add(bad), "{bad}");
        }
    }
}
