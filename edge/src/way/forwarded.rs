//! What an upstream is told of the client's address, scheme and host. A client's own claims are replaced, unless the peer
//! is a trusted proxy; then its address is appended and its scheme and host are kept. Pure.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

use crate::wire::connection::Peer;
use crate::wire::spelling::is_taken_for_the_edges;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// Every other header of this family, which some servers believe.
const FAMILY: &str = "x-forwarded-";
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Rewrites the headers. `host` is the request's own authority.
pub(crate) fn rewrite(headers: &mut HeaderMap, peer: Peer, trusted: bool, host: &str) {
    let address = peer.address.ip().to_canonical();
    let scheme = peer.scheme.as_str();
    let before = Claims::take(headers);
    let believed = if trusted { before } else { Claims::default() };
    set(headers, FOR, &listed(believed.addresses, &address.to_string()));
    set(headers, PROTO, believed.scheme.as_deref().unwrap_or(scheme));
    set(headers, HOST, believed.host.as_deref().unwrap_or(host));
    set(headers, FORWARDED, &listed(believed.forwarded, &element(address, scheme, host)));
}

/// Of this family, or written so that a server might take it for one that the edge writes.
fn is_of_family(name: &HeaderName) -> bool {
    name.as_str().starts_with(FAMILY) || is_taken_for_the_edges(name)
}

#[derive(Default)]
struct Claims {
    addresses: Option<String>,
    scheme: Option<String>,
    host: Option<String>,
    forwarded: Option<String>,
}

impl Claims {
    /// Takes every header of the family out of the request.
    fn take(headers: &mut HeaderMap) -> Self {
        let claims = Self {
            addresses: joined(headers, &FOR),
            scheme: joined(headers, &PROTO),
            host: joined(headers, &HOST),
            forwarded: joined(headers, &FORWARDED),
        };
        let family: Vec<HeaderName> = headers.keys().filter(|name| is_of_family(name)).cloned().collect();
        for name in family.iter().chain([&FORWARDED, &REAL_IP]) {
            headers.remove(name);
        }
        claims
    }
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    Some(values.join(", ")).filter(|text| !text.is_empty())
}

fn listed(before: Option<String>, last: &str) -> String {
    before.map_or_else(|| last.to_owned(), |before| format!("{before}, {last}"))
}

/// One element of `Forwarded` (RFC 7239): what is no token is quoted.
fn element(address: IpAddr, scheme: &str, host: &str) -> String {
    match address {
        IpAddr::V4(address) => format!("for={address};host=\"{host}\";proto={scheme}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\";host=\"{host}\";proto={scheme}"),
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Addresses and checked hosts are header values; anything else is left out rather than forwarded half.
    match HeaderValue::from_str(value) {
        Ok(value) => drop(headers.insert(name, value)),
        Err(_) => drop(headers.remove(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tls::Scheme;

    fn rewritten(trusted: bool, address: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "public.example"),
            ("x-forwarded-port", "666"),
            ("x-forwarded-prefix", "/evil"),
            ("x-real-ip", "203.0.113.9"),
            ("forwarded", "for=203.0.113.9"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let peer = Peer { address: address.parse().expect("an address"), scheme: Scheme::Http };
        rewrite(&mut headers, peer, trusted, "edge.example:8443");
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_strangers_claims_are_replaced() {
        assert_eq!(
            rewritten(false, "[::ffff:198.51.100.7]:4711"),
            [
                "forwarded: for=198.51.100.7;host=\"edge.example:8443\";proto=http",
                "x-forwarded-for: 198.51.100.7",
                "x-forwarded-host: edge.example:8443",
                "x-forwarded-proto: http",
            ]
        );
    }

    #[test]
    fn a_trusted_proxys_claims_are_kept_and_its_address_appended() {
        assert_eq!(
            rewritten(true, "[2001:db8::1]:4711"),
            [
                "forwarded: for=203.0.113.9, for=\"[2001:db8::1]\";host=\"edge.example:8443\";proto=http",
                "x-forwarded-for: 203.0.113.9, 2001:db8::1",
                "x-forwarded-host: public.example",
                "x-forwarded-proto: https",
            ]
        );
    }
}
