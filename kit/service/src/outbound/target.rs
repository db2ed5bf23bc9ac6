//! URLs and hosts as users give them, parsed strictly: ambiguous text is refused, never repaired. Hosts are parsed as
//! browsers parse them (WHATWG), so `http://2130706433/`, `http://0x7f.1/` and `http://[::ffff:7f00:1]/` become
//! addresses before any look-up.

use std::fmt;
use std::net::IpAddr;

use url::Url;

use super::error::{FailureKind, OutboundError};
use super::ranges;

/// Longest URL in bytes: what senders and receivers commonly accept.
pub const MAX_URL: usize = 2048;
/// Longest name in bytes without a trailing dot (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
/// Lower ports belong to other protocols: a request must not reach a mail server or a shell.
const FIRST_USER_PORT: u16 = 1024;

/// The host to connect to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name to resolve, in lower-case ASCII.
    Name(String),
    /// An address, never an IPv4-mapped one.
    Address(IpAddr),
}

impl Host {
    /// Parses a name or an address; IPv6 with or without brackets.
    ///
    /// # Errors
    /// [`FailureKind::RefusedUrl`] for any other text.
    pub fn parse(text: &str) -> Result<Self, OutboundError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(ranges::canonical(address)));
        }
        Self::of(url::Host::parse(text).map_err(refused)?)
    }

    fn of(host: url::Host<impl AsRef<str>>) -> Result<Self, OutboundError> {
        match host {
            url::Host::Ipv4(address) => Ok(Self::Address(IpAddr::V4(address))),
            url::Host::Ipv6(address) => Ok(Self::Address(ranges::canonical(IpAddr::V6(address)))),
            url::Host::Domain(name) => {
                let name = name.as_ref();
                let bare = name.strip_suffix('.').unwrap_or(name);
                if bare.len() > MAX_NAME || bare.split('.').any(str::is_empty) {
                    return Err(refused("the host is not a name"));
                }
                Ok(Self::Name(name.to_owned()))
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A URL that may be requested once its addresses have been checked, made by [`super::OutboundClient::target`]. Path
/// and query often hold secrets, so `Debug` shows only scheme, host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host,
    port: u16,
}

impl Target {
    /// Parses an absolute `https` URL, or an `http` one if `allow_http`.
    ///
    /// # Errors
    /// [`FailureKind::RefusedUrl`]: another scheme, userinfo, a fragment, no host, a port below 1024 other than 80 and
    /// 443, white space, control characters or backslashes, or more than [`MAX_URL`] bytes.
    pub(super) fn parse(text: &str, allow_http: bool) -> Result<Self, OutboundError> {
        if text.len() > MAX_URL {
            return Err(refused("the URL is too long"));
        }
        // The URL parser would strip or convert these.
        if text.chars().any(|letter| letter.is_whitespace() || letter.is_control() || letter == '\\') {
            return Err(refused("the URL holds white space, control characters or backslashes"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused("the URL has no scheme"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "https" => {}
            "http" if allow_http => {}
            _ => return Err(refused("the URL's scheme is not allowed")),
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.is_empty() || authority.contains('@') || rest.contains('#') {
            return Err(refused("the URL has no host, or it has userinfo or a fragment"));
        }
        Self::of(Url::parse(text).map_err(refused)?)
    }

    /// The target that a `Location` in this target's response names.
    pub(super) fn redirect(&self, location: &str, allow_http: bool) -> Result<Self, OutboundError> {
        // The URL parser would repair a reference that holds any of these.
        if location.chars().any(|letter| letter.is_whitespace() || letter.is_control() || letter == '\\') {
            return Err(refused("the redirect holds white space, control characters or backslashes"));
        }
        let mut url = self.url.join(location).map_err(refused)?;
        url.set_fragment(None);
        let target = Self::parse(url.as_str(), allow_http)?;
        if self.is_tls() && !target.is_tls() {
            return Err(OutboundError::new(FailureKind::Redirect, "a redirect from https to http"));
        }
        Ok(target)
    }

    fn of(url: Url) -> Result<Self, OutboundError> {
        let host = Host::of(url.host().ok_or_else(|| refused("the URL has no host"))?)?;
        let port = url.port_or_known_default().ok_or_else(|| refused("the URL has no port"))?;
        if !matches!(port, 80 | 443) && port < FIRST_USER_PORT {
            return Err(refused("the URL's port is not allowed"));
        }
        Ok(Self { url, host, port })
    }

    /// The host to connect to.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port; never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The whole URL as requested. It may hold secrets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(super) fn has_origin_of(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
    }

    /// The host, and the port unless it is the scheme's default.
    pub(super) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Path and query.
    pub(super) fn path(&self) -> &str {
        &self.url[url::Position::BeforePath..]
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({}://{}:{})", self.url.scheme(), self.host, self.port)
    }
}

fn refused(why: impl fmt::Display) -> OutboundError {
    OutboundError::new(FailureKind::RefusedUrl, why)
}
