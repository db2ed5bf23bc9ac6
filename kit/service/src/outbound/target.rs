//! URLs and hosts as users give them, read strictly: what two readers could take differently is refused, never repaired.
//! Hosts are read as browsers read them (WHATWG), so `http://2130706433/`, `http://0x7f.1/` and `http://[::ffff:7f00:1]/`
//! are addresses before anything is looked up.

use std::fmt;
use std::net::IpAddr;

use url::Url;

use super::error::{FailureKind, OutboundError};
use super::ranges;

/// Longest URL in bytes: what senders and receivers commonly take.
pub const MAX_URL: usize = 2048;
/// Longest name in bytes without a final dot (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
/// Ports below this one belong to other protocols: a request must not reach a mail server or a shell.
const FIRST_USER_PORT: u16 = 1024;

/// Whom to connect to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name to be resolved, in lower case ASCII.
    Name(String),
    /// An address; never an IPv4-mapped one.
    Address(IpAddr),
}

impl Host {
    /// Reads a name or an address, IPv6 with or without brackets.
    ///
    /// # Errors
    /// [`FailureKind::RefusedUrl`] for what is neither.
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

/// A URL that a request may be sent to, once its addresses have been checked: [`super::OutboundClient::target`] makes one. Its path and query are secrets as often as
/// not, so `Debug` shows scheme, host and port only.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host,
    port: u16,
}

impl Target {
    /// Reads an absolute `https` URL, or an `http` one where `allow_http` says so.
    ///
    /// # Errors
    /// [`FailureKind::RefusedUrl`]: another scheme, userinfo, a fragment, no host, a port below 1024 that is neither 80 nor
    /// 443, white space, control characters or backslashes, or more than [`MAX_URL`] bytes.
    pub(super) fn parse(text: &str, allow_http: bool) -> Result<Self, OutboundError> {
        if text.len() > MAX_URL {
            return Err(refused("the URL is too long"));
        }
        // The parser would strip or turn these round.
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

    /// The target that a `Location` of this one's answer names.
    pub(super) fn redirect(&self, location: &str, allow_http: bool) -> Result<Self, OutboundError> {
        // Only a reference that holds neither of these can be joined without being repaired.
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

    /// Whom to connect to.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port; never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The whole URL as it is requested. It may hold secrets.
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

    /// Host, and port where it is not the scheme's own.
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
