//! Fields allowed in trailers. A field about routing, framing, the sender, the content or its handling belongs in the
//! head (RFC 9110, 6.5.1): a reader that merges trailers into heads would accept from a client what the gateway has not
//! checked there. Every other field passes, such as gRPC's status and checksums (RFC 9530). Pure.

use http::HeaderMap;

use crate::http::headers::{is_of_one_hop, remove};
use crate::http::spelling;

/// Prefixes of names that belong in the head.
const FAMILIES: [&str; 7] = [
    // The body's format, except its checksum; and `Content-Security-Policy`.
    "content-",
    // What the client accepts, and conditions.
    "accept-",
    "if-",
    // Proxies.
    "proxy-",
    // The sender.
    "sec-",
    "x-auth-",
    // Origins that may read the answer.
    "access-control-",
];
/// Known only at the end of the body.
const CHECKSUM: &str = "content-digest";

/// Removes the fields that belong in the head.
pub(crate) fn strip(trailers: &mut HeaderMap) {
    remove(trailers, |name| {
        is_of_one_hop(name) || is_of_a_head(spelling::folded(name).as_deref().unwrap_or(name.as_str()))
    });
}

/// Whether a name, in its usual spelling, belongs in the head.
fn is_of_a_head(name: &str) -> bool {
    let of_family = FAMILIES.iter().any(|family| name.starts_with(family)) && name != CHECKSUM;
    of_family
        || spelling::claims(name)
        || routes(name)
        || frames(name)
        || says_who(name)
        || handles_the_answer(name)
}

/// Routing.
fn routes(name: &str) -> bool {
    matches!(name, "alt-svc" | "alt-used" | "host" | "max-forwards" | "via")
}

/// Framing and connection management.
fn frames(name: &str) -> bool {
    matches!(name, "http2-settings" | "keep-alive" | "range" | "trailer" | "transfer-encoding")
}

/// The sender, and names of the request.
fn says_who(name: &str) -> bool {
    matches!(
        name,
        "authentication-info"
            | "authorization"
            | "baggage"
            | "cookie"
            | "cookie2"
            | "dpop"
            | "from"
            | "idempotency-key"
            | "origin"
            | "referer"
            | "remote-user"
            | "set-cookie"
            | "set-cookie2"
            | "traceparent"
            | "tracestate"
            | "user-agent"
            | "www-authenticate"
            | "x-api-key"
            | "x-correlation-id"
            | "x-csrf-token"
            | "x-remote-user"
    )
}

/// Handling of the message by a cache, a browser or the gateway itself.
fn handles_the_answer(name: &str) -> bool {
    matches!(
        name,
        "accept"
            | "age"
            | "allow"
            | "cache-control"
            | "clear-site-data"
            | "date"
            | "expires"
            | "location"
            | "pragma"
            | "prefer"
            | "ratelimit"
            | "ratelimit-policy"
            | "refresh"
            | "retry-after"
            | "server"
            | "strict-transport-security"
            | "vary"
            | "warning"
            | "x-catalog-revision"
            | "x-content-type-options"
            | "x-frame-options"
    )
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    #[test]
    fn fields_of_the_head_are_removed_in_every_spelling() {
        let left = |name: &str| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            let mut trailers = HeaderMap::from_iter([(name, http::HeaderValue::from_static("1"))]);
            strip(&mut trailers);
            !trailers.is_empty()
        };
        for name in
            ["Content-Type", "content_type", "X.Real.IP", "x_correlation-id", "TE", "If_Range", "keep_alive"]
        {
            assert!(!left(name), "{name}");
        }
        for name in
            ["content-digest", "content_digest", "grpc-status", "x-hosts", "iffy", "contents", "x_custom"]
        {
            assert!(left(name), "{name}");
        }
    }

    #[test]
    fn the_edges_own_fields_belong_in_the_head() {
        assert!(is_of_a_head(contract::catalog::REVISION_HEADER));
        assert!(is_of_a_head(contract::correlation::HEADER));
    }
}
