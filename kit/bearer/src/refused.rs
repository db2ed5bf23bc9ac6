//! The reasons for refusing a bearer. The gateway and the service chassis render them; this module renders nothing.

/// The text of [`Refused::Invalid`] for a valid token that has expired.
pub const EXPIRED: &str = "expired";

/// Why there are no [`Claims`](crate::Claims). The text of `Invalid` is for logs and never quotes the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No `Authorization` header, or another scheme: 401 `AUTH_TOKEN_MISSING`.
    #[error("no bearer token")]
    Missing,
    /// A bearer that does not verify: 401 `AUTH_TOKEN_INVALID`.
    #[error("bearer token refused: {0}")]
    Invalid(&'static str),
    /// Two `Authorization` headers: 400, because the next hop may read the other one.
    #[error("more than one Authorization header")]
    Ambiguous,
    /// The provider's keys have not been read yet: 503, because the token may well be good.
    #[error("the identity provider's signing keys are not known yet")]
    KeysUnavailable,
}
