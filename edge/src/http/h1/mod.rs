//! HTTP/1.1, strictly, both sides of it: `head` reads heads, `framing` decides how long a body is, `chunks` and `reader`
//! take bodies apart, and `output` writes. `server/http1` serves a client's connection, `upstream/http1` is one exchange with an upstream.
//! What is not well formed is refused, never repaired: two readings of one message are how requests are smuggled.

pub(crate) mod chunks;
pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod output;
pub(crate) mod reader;

/// Why a message cannot be read; the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Not HTTP, or two readings of it are possible.
    #[error("{0}")]
    Malformed(&'static str),
    #[error("the target is too long")]
    UriTooLong,
    #[error("the head is too large")]
    HeadTooLarge,
    /// HTTP/1.0 with a body, or to a route that does not answer it: nothing says where its answers end when they break off.
    #[error("the version is not HTTP/1.1")]
    Version,
}

impl Fault {
    /// The target is no path and query, or has a fragment: that is never sent, and would be dropped in silence.
    pub(crate) const BAD_TARGET: Self = Self::Malformed("The target is not well formed.");
}

/// Why the edge answers before there is a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeadError {
    Fault(Fault),
    /// The head did not come to its end in time.
    Late,
}
