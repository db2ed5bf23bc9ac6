//! The host names under which clients reach the platform.

use std::net::IpAddr;

use contract::settings::Kind;
use contract::{Reader, Variable, ports};
use http::HeaderValue;
use http::uri::Authority;

use crate::config::variables::DOMAIN;

pub(super) const STRICT_HOST: Variable = Variable::new(
    "PLATFORM_GATEWAY_STRICT_HOST",
    Kind::Flag,
    Some("false"),
    "Whether a request for a host that is not the platform's own is refused with 421",
);

/// Ports that a `Host` may omit, or that honest clients and balancers include by habit.
const USUAL_PORTS: [u16; 2] = [443, 80];
/// Suffixes of names that are meaningful only within one network (RFC 2606, 6761, 6762, 8375 and ICANN's reserved
/// `internal`), and those that networks use in the same way.
const LOCAL: [&str; 11] = [
    "localhost",
    "local",
    "internal",
    "test",
    "invalid",
    "localdomain",
    "lan",
    "home",
    "home.arpa",
    "corp",
    "intranet",
];

/// The platform's own hosts.
#[derive(Clone, Debug)]
pub(crate) struct OwnHosts {
    /// The host, with its port unless that is 443, as links to the platform contain it.
    domain: HeaderValue,
    /// In lower case, each with its own port; the domain comes first.
    names: Vec<(String, Option<u16>)>,
    /// If the domain is a loopback name, all loopback names are own hosts, on any port.
    development: bool,
    /// The ports on which the gateway listens.
    listening: Vec<u16>,
    /// Whether requests for any other host are refused.
    pub(crate) strict: bool,
    public: bool,
}

impl OwnHosts {
    /// Reads the domain; `origins` are the allowed web origins, as browsers write them.
    pub(super) fn read(reader: &mut Reader<'_>, offset: u16, origins: &[String]) -> Self {
        let domain = domain(reader, offset);
        let authority =
            domain.parse::<Authority>().ok().filter(|authority| super::host_and_port(authority).is_some());
        let header = HeaderValue::try_from(&domain).ok();
        let (Some(authority), Some(header)) = (authority, header) else {
            reader.refuse(
                DOMAIN.name,
                format!("\"{domain}\" is not a host or host:port such as platform.example"),
            );
            return Self::of(HeaderValue::from_static("localhost"), Vec::new(), offset, false);
        };
        let strict = reader.flag(&STRICT_HOST);
        let others =
            origins.iter().filter_map(|origin| origin.split_once("://")?.1.parse::<Authority>().ok());
        let names = std::iter::once(authority).chain(others);
        let names = names.map(|name| (name.host().to_ascii_lowercase(), name.port_u16())).collect();
        Self::of(header, names, offset, strict)
    }

    /// The hosts of a domain alone, for benchmarks and tests.
    pub(crate) fn of_domain(domain: &'static str) -> Self {
        Self::of(HeaderValue::from_static(domain), vec![(domain.to_owned(), None)], 0, false)
    }

    fn of(domain: HeaderValue, names: Vec<(String, Option<u16>)>, offset: u16, strict: bool) -> Self {
        let first = names.first().map_or("localhost", |(name, _)| name.as_str());
        Self {
            development: is_loopback(first),
            public: is_public(first),
            listening: [ports::EDGE, ports::EDGE_PLAIN].map(|port| port.saturating_add(offset)).to_vec(),
            domain,
            names,
            strict,
        }
    }

    /// Adds a port on which the gateway listens.
    pub(crate) fn listen(&mut self, port: u16) {
        self.listening.push(port);
    }

    /// Whether a well-formed host, with or without a port, is one of the platform's own. An own name with a foreign
    /// port is another server.
    pub(crate) fn own(&self, host: &str) -> bool {
        let (name, port) = split(host);
        let is_its = |port: &str, own: Option<u16>| {
            let usual = USUAL_PORTS.iter().chain(&self.listening).chain(own.as_ref());
            port.parse().is_ok_and(|port: u16| usual.into_iter().any(|known| *known == port))
        };
        let mut names = self.names.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        names.any(|(_, own)| port.is_none_or(|port| is_its(port, *own)))
            || (self.development && is_loopback(name))
    }

    /// The host that the platform uses for itself.
    pub(crate) fn domain(&self) -> HeaderValue {
        self.domain.clone()
    }

    /// Whether the domain has the same meaning everywhere, so that browsers may remember to use TLS for it.
    pub(crate) const fn is_public(&self) -> bool {
        self.public
    }
}

/// `PLATFORM_DOMAIN`, by default loopback's name; in lower case, and without the port that browsers omit.
pub(super) fn domain(reader: &mut Reader<'_>, offset: u16) -> String {
    let given = reader.optional(&DOMAIN);
    let domain = given.unwrap_or_else(|| format!("localhost:{}", ports::EDGE.saturating_add(offset)));
    domain.strip_suffix(":443").unwrap_or(&domain).to_ascii_lowercase()
}

/// Splits a host into name and port.
fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        // A colon within brackets is part of the address.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.parse().ok()
}

fn is_loopback(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || address(&name).is_some_and(|address| address.is_loopback())
}

fn is_public(name: &str) -> bool {
    let is_below =
        |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    name.contains('.') && address(name).is_none() && !LOCAL.into_iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_name_means_the_same_everywhere() {
        for name in ["platform.example.com", "a.example", "internal.example.com", "mylocal.dev"] {
            assert!(is_public(name), "{name}");
        }
        for name in [
            "localhost",
            "a.localhost",
            "edge.local",
            "x.y.internal",
            "a.test",
            "edge",
            "10.0.0.1",
            "[2001:db8::1]",
            "box.home.arpa",
            "x.lan",
            "::1",
        ] {
            assert!(!is_public(name), "{name}");
        }
    }

    #[test]
    fn a_host_is_split_at_its_port() {
        for (host, name, port) in [
            ("a.example", "a.example", None),
            ("a.example:8443", "a.example", Some("8443")),
            ("[::1]", "[::1]", None),
            ("[::1]:8443", "[::1]", Some("8443")),
        ] {
            assert_eq!(split(host), (name, port), "{host}");
        }
    }
}
