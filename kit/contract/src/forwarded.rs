//! Client addresses in `X-Forwarded-For`.

use std::net::{IpAddr, SocketAddr};

/// Reads one entry: an address, alone or with a port, for IPv6 also in brackets. Proxies write all of these.
#[must_use]
pub fn address(text: &str) -> Option<IpAddr> {
    let bare = || text.parse().ok();
    let with_port = || text.parse().map(|address: SocketAddr| address.ip()).ok();
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    bare().or_else(with_port).or_else(in_brackets).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_in_every_form_that_proxies_write() {
        for (text, expected) in [
            ("203.0.113.9", Some("203.0.113.9")),
            ("203.0.113.9:51234", Some("203.0.113.9")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("::ffff:203.0.113.9", Some("203.0.113.9")),
            ("", None),
            ("unknown", None),
            ("_hidden", None),
            ("203.0.113.9:", None),
            ("[203.0.113.9", None),
        ] {
            assert_eq!(address(text), expected.map(|text| text.parse().expect("an address")), "{text}");
        }
    }
}
