//! HTTP/1.1, parsed strictly, for both sides: `head` parses heads, `framing` determines a body's length, `chunks` and
//! `reader` parse bodies, and `output` writes. `server/http1` serves a client's connection; `upstream/http1` is one
//! exchange with an upstream. Malformed input is refused, never repaired: two readings of one message enable request
//! smuggling.

pub(crate) mod chunks;
pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod output;
pub(crate) mod reader;

/// Why a message cannot be parsed; the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Not HTTP, or ambiguous.
    #[error("{0}")]
    Malformed(&'static str),
    #[error("the target is too long")]
    UriTooLong,
    #[error("the head is too large")]
    HeadTooLarge,
    /// HTTP/1.0 with a body, or to a route that does not support it: an HTTP/1.0 client cannot tell that an answer
    /// broke off.
    #[error("the version is not HTTP/1.1")]
    Version,
}

impl Fault {
    /// The target is not a path and query, or has a fragment, which clients never send and the parser would drop
    /// silently.
    pub(crate) const BAD_TARGET: Self = Self::Malformed("The target is not well formed.");
}

/// Why the gateway answers before there is a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeadError {
    Fault(Fault),
    /// The head did not arrive in full in time.
    Late,
}
