//! The first step: checks that apply to every request on every route. Framing and limits come first, then (after
//! the preflight) the headers that claim an identity. [`Framed`] and [`Guarded`] exist only through these checks.

use std::net::Ipv6Addr;

use http::{HeaderMap, HeaderValue, Method, Request, Version, header, uri};

use crate::body::request::RequestBody;
use crate::config::{EdgeConfig, Limits};
use crate::http::h1::{Fault, HeadError};
use crate::http::h2::HasFragment;
use crate::http::headers::{Marks, claims_identity, size_of};
use crate::http::peer::Peer;
use crate::http::spelling;
use crate::metrics::ids::RequestIds;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::upgrade::Upgrade;
use crate::pipeline::{forwarded, upgrade};

/// Paths that balancers request by address, some of them over HTTP/1.0.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// A request within the limits, for one known host.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) request: Request<RequestBody>,
    host: HeaderValue,
    marks: Marks,
}

/// A request without headers that claim an identity or mislead a later reader.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) request: Request<RequestBody>,
    pub(crate) host: HeaderValue,
    pub(crate) marks: Marks,
    /// The protocol that the request upgrades to.
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) peer: Peer,
    pub(crate) behind_trusted_proxy: bool,
    pub(crate) ids: RequestIds,
}

/// Checks limits and host. Upstreams see only the platform's own hosts, because they build links from them.
pub(crate) fn frame(
    config: &EdgeConfig,
    peer: Peer,
    request: Request<RequestBody>,
) -> Result<Framed, Refusal> {
    check_limits(&config.limits, &request)?;
    let is_old = request.version() == Version::HTTP_10;
    if is_old && !PROBES.contains(&request.uri().path()) {
        return Err(Refusal::Head(HeadError::Fault(Fault::Version)));
    }
    if request.extensions().get::<HasFragment>().is_some() {
        return Err(Refusal::Head(HeadError::Fault(Fault::BAD_TARGET)));
    }
    let is_nameless =
        is_old && request.uri().authority().is_none() && !request.headers().contains_key(header::HOST);
    let mut host =
        if is_nameless { config.hosts.domain() } else { host_of(&request).map_err(Refusal::Host)? };
    if !host.to_str().is_ok_and(|host| config.hosts.own(host)) {
        host = of_another_host(config, peer, &request)?;
    }
    let marks = Marks::of(request.headers());
    Ok(Framed { request, host, marks })
}

/// Refuses headers that claim an identity or would mislead a later reader.
pub(crate) fn guard(
    config: &EdgeConfig,
    peer: Peer,
    ids: &RequestIds,
    framed: Framed,
) -> Result<Box<Guarded>, Refusal> {
    let Framed { request, host, marks } = framed;
    check_headers(marks, request.headers())?;
    let may_ask = marks.has(Marks::UPGRADE) || *request.method() == Method::CONNECT;
    let upgrade = if may_ask { upgrade::asked_for(&config.upgrades, &request)? } else { None };
    let behind_trusted_proxy = config.trusted.contain(peer.address.ip());
    let ids = ids.clone();
    Ok(Box::new(Guarded { request, host, marks, upgrade, peer, behind_trusted_proxy, ids }))
}

/// Resolves the host of a request for a foreign host. A strict gateway refuses it, unless a trusted proxy says that its
/// client asked for an own host, or the request is a balancer's health probe, which goes by address.
#[cold]
#[inline(never)]
fn of_another_host<B>(config: &EdgeConfig, peer: Peer, request: &Request<B>) -> Result<HeaderValue, Refusal> {
    let hosts = &config.hosts;
    let of_proxy = || {
        let claimed = forwarded::claimed_host(request.headers());
        config.trusted.contain(peer.address.ip()) && claimed.is_some_and(|host| hosts.own(host))
    };
    let is_answered = !hosts.strict || PROBES.contains(&request.uri().path()) || of_proxy();
    if is_answered { Ok(hosts.domain()) } else { Err(Refusal::Misdirected) }
}

pub(crate) fn check_headers(marks: Marks, headers: &HeaderMap) -> Result<(), Refusal> {
    if marks.has(Marks::CLAIM)
        && let Some(name) = headers.keys().find(|name| claims_identity(name))
    {
        return Err(Refusal::IdentityHeader(name.to_string()));
    }
    if marks.has(Marks::SPELLED) && headers.keys().any(spelling::is_taken_for_framing) {
        return Err(Refusal::Misleading("A header could be mistaken for the framing of the body."));
    }
    if marks.has(Marks::EXPECT) && expects_the_unknown(headers) {
        return Err(Refusal::Expectation);
    }
    if (marks.has(Marks::CONNECTION) || marks.has(Marks::TE)) && spelling::lists_too_much(headers) {
        return Err(Refusal::Misleading("The hop-by-hop headers list too many options."));
    }
    if marks.has(Marks::CONNECTION) && spelling::takes_too_much_away(headers) {
        return Err(Refusal::Misleading(
            "The Connection header names a header that is not a hop-by-hop header.",
        ));
    }
    Ok(())
}

fn expects_the_unknown(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::EXPECT)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn check_limits<B>(limits: &Limits, request: &Request<B>) -> Result<(), Refusal> {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if uri > limits.uri {
        return Err(Refusal::UriTooLong);
    }
    let headers = request.headers();
    if headers.len() > limits.headers || size_of(headers) > limits.header_bytes {
        Err(Refusal::HeadersTooLarge)
    } else {
        Ok(())
    }
}

/// The single host of the request: the target's own, or exactly one `Host`; if both are present, they must be equal.
fn host_of<B>(request: &Request<B>) -> Result<HeaderValue, &'static str> {
    if request.uri().scheme_str().is_some_and(|scheme| !matches!(scheme, "http" | "https")) {
        return Err("The target's scheme is not HTTP's.");
    }
    let mut values = request.headers().get_all(header::HOST).iter();
    let header = values.next();
    if values.next().is_some() {
        return Err("There is more than one Host header.");
    }
    let text = header.map(|value| value.to_str().map_err(|_| "The Host header is not text.")).transpose()?;
    let target = request.uri().authority().map(uri::Authority::as_str);
    let host = match (target, text) {
        (Some(target), Some(text)) if !target.eq_ignore_ascii_case(text) => {
            return Err("The Host header is not the target's host.");
        }
        (Some(target), Some(_)) => target,
        (Some(target), None) if request.version() == Version::HTTP_2 => target,
        (None, Some(text)) => text,
        (None, None) if request.version() == Version::HTTP_2 => return Err("There is no authority."),
        (_, None) => return Err("There is no Host header."),
    };
    // The header's own value is shared, not copied.
    let value = match header.filter(|value| *value == host) {
        Some(value) => Some(value.clone()),
        None => HeaderValue::from_str(host).ok(),
    };
    value.filter(|_| is_host(host)).ok_or("The host is not well formed.")
}

/// Whether `text` is a name or an address with an optional port: stricter than a URL's authority, because upstreams put
/// it into URLs.
pub(crate) fn is_host(text: &str) -> bool {
    let (is_valid, rest) = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, rest)) = rest.split_once(']') else { return false };
        (address.parse::<Ipv6Addr>().is_ok(), rest)
    } else {
        let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        (!name.is_empty() && name.bytes().all(of_name), rest)
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_valid && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::headers::HEADER_OVERHEAD;

    fn request(uri: &str, hosts: &[&'static str]) -> Request<()> {
        // A target with a host and no Host header is HTTP/2's form alone.
        let http2 = uri.starts_with("https:") && hosts.is_empty();
        let version = if http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        let mut request = Request::builder().uri(uri).version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        request.body(()).expect("a request")
    }

    #[test]
    fn a_request_is_for_exactly_one_host() {
        for (uri, hosts, host) in [
            ("/x", vec!["a.example:8443"], "a.example:8443"),
            ("https://a.example/x", vec![], "a.example"),
            ("https://a.example/x", vec!["A.example"], "a.example"),
            ("/x", vec!["[::1]:8443"], "[::1]:8443"),
        ] {
            assert_eq!(host_of(&request(uri, &hosts)), Ok(HeaderValue::from_static(host)));
        }
        for (uri, hosts) in [
            ("/x", vec![]),
            ("/x", vec!["a", "a"]),
            ("https://a.example/x", vec!["b.example"]),
            ("/x", vec!["u@a"]),
            ("/x", vec![""]),
            ("/x", vec!["a b"]),
            ("/x", vec!["a/b"]),
            ("/x", vec!["a,b"]),
            ("/x", vec!["a:"]),
            ("/x", vec!["a:+1"]),
            ("/x", vec!["a:65536"]),
            ("/x", vec!["[::1"]),
            ("/x", vec!["[zz]"]),
            ("/x", vec!["[::1]x"]),
            ("/x", vec!["::1"]),
        ] {
            assert!(host_of(&request(uri, &hosts)).is_err(), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn a_request_at_the_limits_passes_and_one_past_them_does_not() {
        let limits = Limits {
            header_bytes: 2 * (1 + 1 + HEADER_OVERHEAD),
            headers: 2,
            uri: 4,
            body: 0,
            module_body: None,
            streams: 1,
            connections: 1,
            connections_per_address: None,
            handshakes: 1,
            tunnels: 1,
        };
        let with = |uri: &str, headers: &[(&'static str, &'static str)]| {
            let mut request = Request::builder().uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            check_limits(&limits, &request.body(()).expect("a request"))
        };
        assert!(with("/abc", &[("a", "1"), ("b", "2")]).is_ok());
        assert!(matches!(with("/abcd", &[]), Err(Refusal::UriTooLong)));
        assert!(matches!(with("/abc", &[("a", "1"), ("b", "22")]), Err(Refusal::HeadersTooLarge)));
        assert!(matches!(with("/", &[("a", ""), ("b", ""), ("c", "")]), Err(Refusal::HeadersTooLarge)));
    }
}
