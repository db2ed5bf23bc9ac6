//! Header rules that hold on every hop: what ends at this hop, and which names claim an identity. Pure.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// Headers of one connection, and the two that frame a body: framing is rebuilt from the body itself, never copied.
const OF_ONE_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::EXPECT,
];
/// The same, without a constant in the `http` crate.
const OF_ONE_HOP_BY_NAME: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];

/// Removes what ends at this hop, the headers that `Connection` names among them.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in nominated(headers) {
        headers.remove(name);
    }
    for name in &OF_ONE_HOP {
        headers.remove(name);
    }
    for name in OF_ONE_HOP_BY_NAME {
        headers.remove(name);
    }
}

/// Whether a header that is a list has this item.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let is_item = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(item.as_bytes());
    values.any(|value| value.split(|byte| *byte == b',').any(is_item))
}

/// Removes from trailers what may only stand in a head: framing, routing and the caller's credentials.
pub(crate) fn strip_from_trailers(trailers: &mut HeaderMap) {
    for name in OF_ONE_HOP.iter().chain(&ONLY_IN_HEADS) {
        trailers.remove(name);
    }
    for name in OF_ONE_HOP_BY_NAME {
        trailers.remove(name);
    }
}

/// What decides where a message goes and who sent it (RFC 9110, 6.5.1).
const ONLY_IN_HEADS: [HeaderName; 4] =
    [header::HOST, header::AUTHORIZATION, header::COOKIE, header::FORWARDED];

/// The headers that `Connection` names.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect()
}

/// Whether a header claims to say who the user is: `x-user-…` once `_` and `.`, which some servers read as `-`, are
/// folded. Names are lower case already.
pub(crate) fn claims_identity(name: &HeaderName) -> bool {
    let folded = name.as_str().bytes().map(|byte| if matches!(byte, b'_' | b'.') { b'-' } else { byte });
    folded.take(IDENTITY_PREFIX.len()).eq(IDENTITY_PREFIX.bytes())
}

const IDENTITY_PREFIX: &str = "x-user-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_headers_are_known_in_every_spelling() {
        for name in ["x-user-id", "X-User-Sub", "x_user_id", "x.user.id", "x-user_", "x-user-"] {
            assert!(claims_identity(&HeaderName::from_bytes(name.as_bytes()).expect("a name")), "{name}");
        }
        for name in ["x-user", "x-username", "xx-user-id", "user-id", "x-users-id"] {
            assert!(!claims_identity(&HeaderName::from_bytes(name.as_bytes()).expect("a name")), "{name}");
        }
    }

    #[test]
    fn what_belongs_to_one_hop_ends_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret"),
            ("connection", "keep-alive"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("te", "gzip"),
            ("proxy-authorization", "Basic x"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().expect("a value"));
        }
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
