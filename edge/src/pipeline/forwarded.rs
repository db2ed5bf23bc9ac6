//! Headers that tell an upstream the client's address, scheme and host. A client's own claims are replaced, unless the
//! peer is a trusted proxy; then its address is appended, and its scheme and host are kept, the host only if it is one
//! of the platform's own. Pure.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

use crate::config::OwnHosts;
use crate::http::headers::{Marks, remove};
use crate::http::peer::Peer;
use crate::http::spelling;
use crate::pipeline::elements;
use crate::pipeline::guard::is_host;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// The maximum size of an element, apart from its address and host.
const ELEMENT: usize = "for=\"[]\";host=\"\";proto=https".len();

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) peer: Peer,
    /// The peer is a trusted proxy, so its claims about its client are believed.
    pub(crate) behind_trusted_proxy: bool,
    /// The only hosts that may be claimed.
    pub(crate) hosts: &'a OwnHosts,
}

/// Rewrites the headers. `host` is the request's own, or the one assumed for it.
pub(crate) fn rewrite(headers: &mut HeaderMap, marks: Marks, from: Sender<'_>, host: &HeaderValue) {
    let Sender { peer, behind_trusted_proxy, hosts } = from;
    let address = text_of(peer.address.ip().to_canonical());
    let scheme = peer.scheme.as_str();
    let mut believed = Claims::default();
    if marks.has(Marks::CLAIM) {
        if behind_trusted_proxy {
            believed = Claims::read(headers, hosts);
        }
        remove(headers, is_of_family);
    }
    let proto = believed.scheme.map_or_else(|| Some(HeaderValue::from_static(scheme)), value);
    let public = believed.host.map_or_else(|| Some(host.clone()), value);
    let element = element(&address, scheme, host);
    for (name, value) in [
        (FOR, value(listed(believed.addresses, address))),
        (PROTO, proto),
        (HOST, public),
        (FORWARDED, value(listed(believed.forwarded, element))),
    ] {
        // Addresses and checked hosts are valid header values; any other value is omitted rather than forwarded in
        // part.
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
}

/// Whether a header claims the client's identity or target, or is spelled so that a server might mistake it for a
/// header that the gateway writes. Some servers and frameworks prefer such a header to the request's own host or path.
pub(crate) fn is_of_family(name: &HeaderName) -> bool {
    spelling::claims(name.as_str()) || spelling::is_taken_for_the_edges(name)
}

#[derive(Default)]
struct Claims {
    addresses: Option<String>,
    scheme: Option<String>,
    host: Option<String>,
    forwarded: Option<String>,
}

impl Claims {
    fn read(headers: &HeaderMap, hosts: &OwnHosts) -> Self {
        let host = claimed_host(headers).filter(|host| hosts.own(host));
        Self {
            addresses: joined(headers, &FOR),
            scheme: joined(headers, &PROTO),
            host: host.map(ToOwned::to_owned),
            forwarded: joined(headers, &FORWARDED)
                .and_then(|text| elements::without_other_hosts(&text, hosts)),
        }
    }
}

/// The host that a proxy says its client asked for: the first of the list, which the outermost proxy wrote.
pub(crate) fn claimed_host(headers: &HeaderMap) -> Option<&str> {
    let first = headers.get(HOST)?.to_str().ok()?.split(',').next()?.trim();
    is_host(first).then_some(first)
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    Some(values.join(", ")).filter(|text| !text.is_empty())
}

fn listed(before: Option<String>, last: String) -> String {
    match before {
        Some(before) => format!("{before}, {last}"),
        None => last,
    }
}

/// Formats an address; IPv4 does not go through `fmt`.
fn text_of(address: IpAddr) -> String {
    let IpAddr::V4(address) = address else { return address.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (position, number) in address.octets().into_iter().enumerate() {
        if position > 0 {
            text.push('.');
        }
        text.push_str(itoa::Buffer::new().format(number));
    }
    text
}

/// Formats one element of `Forwarded` (RFC 7239), quoting values that are not tokens.
fn element(address: &str, scheme: &str, host: &HeaderValue) -> String {
    let (before, after) = if address.contains(':') { ("for=\"[", "]\"") } else { ("for=", "") };
    let host = host.to_str().unwrap_or_default();
    let mut element = String::with_capacity(ELEMENT + address.len() + host.len());
    for part in [before, address, after, ";host=\"", host, "\";proto=", scheme] {
        element.push_str(part);
    }
    element
}

fn value(text: String) -> Option<HeaderValue> {
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::peer::Scheme;

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
        let hosts = OwnHosts::of_domain("public.example");
        let from = Sender { peer, behind_trusted_proxy: trusted, hosts: &hosts };
        let marks = Marks::of(&headers);
        rewrite(&mut headers, marks, from, &HeaderValue::from_static("edge.example:8443"));
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
