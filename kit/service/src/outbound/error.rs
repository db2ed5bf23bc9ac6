//! Why a call to a user-given address failed: a kind that users may see, and a detail for the log only.

use std::fmt;

/// What went wrong. [`FailureKind::word`] is its stable name, for stored outcomes, metrics and `details.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The URL is malformed, or its scheme, port or length is not allowed.
    RefusedUrl,
    /// An address of the target lies in a blocked range.
    RefusedAddress,
    /// The name has no address, or the resolver failed.
    Resolve,
    /// No address accepted a connection, or the connection broke off.
    Connect,
    /// The TLS handshake failed for another reason than the certificate.
    Tls,
    /// The certificate is invalid, untrusted or for another name.
    Certificate,
    /// A time limit was exceeded.
    Timeout,
    /// The response's head or body exceeds its limit.
    TooLarge,
    /// The response is not HTTP/1.1.
    Protocol,
    /// More redirects than the request follows, or a redirect from TLS to plain text.
    Redirect,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::RefusedUrl,
        Self::RefusedAddress,
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Certificate,
        Self::Timeout,
        Self::TooLarge,
        Self::Protocol,
        Self::Redirect,
    ];

    /// A stable identifier.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::RefusedUrl => "malformed_target",
            Self::RefusedAddress => "blocked_address",
            Self::Resolve => "resolve_failed",
            Self::Connect => "connect_failed",
            Self::Tls => "tls_failed",
            Self::Certificate => "certificate_invalid",
            Self::Timeout => "timeout",
            Self::TooLarge => "answer_too_large",
            Self::Protocol => "protocol_error",
            Self::Redirect => "redirect_refused",
        }
    }

    /// Whether the same call may succeed later without a change to the target.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Resolve | Self::Connect | Self::Tls | Self::Timeout | Self::TooLarge | Self::Protocol => {
                true
            }
            Self::RefusedUrl | Self::RefusedAddress | Self::Certificate | Self::Redirect => false,
        }
    }

    /// A sentence for users: it names no address, no range and no text from the other side.
    const fn sentence(self) -> &'static str {
        match self {
            Self::RefusedUrl => "the URL is not allowed",
            Self::RefusedAddress => "the target's address is not allowed",
            Self::Resolve => "the target's name cannot be resolved",
            Self::Connect => "the target cannot be reached",
            Self::Tls => "the TLS handshake with the target failed",
            Self::Certificate => "the target's certificate is not valid",
            Self::Timeout => "the target did not answer in time",
            Self::TooLarge => "the target's answer is too large",
            Self::Protocol => "the target's answer is not HTTP/1.1",
            Self::Redirect => "the target's redirect is not allowed",
        }
    }
}

/// A failed call. `Display` is for users; [`OutboundError::detail`] holds addresses and causes and is for the log only.
#[derive(Clone)]
pub struct OutboundError {
    kind: FailureKind,
    detail: String,
}

impl OutboundError {
    pub(super) fn new(kind: FailureKind, detail: impl fmt::Display) -> Self {
        Self { kind, detail: detail.to_string() }
    }

    /// What went wrong.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The cause, for the log only: it reveals which address a name resolves to and which ports are open.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.sentence())
    }
}

/// As `Display`, so that formatting an error by accident leaks nothing either.
impl fmt::Debug for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutboundError({})", self.kind.word())
    }
}

impl std::error::Error for OutboundError {}
