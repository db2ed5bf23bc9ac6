//! Header rules that hold on every hop: what ends at this hop, and which names claim an identity. Pure.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// Whether a header is of one connection, or frames a body: framing is rebuilt from the body itself, never copied.
fn is_of_one_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "content-length"
            | "expect"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Removes what ends at this hop, the headers that `Connection` names among them.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in nominated(headers) {
        headers.remove(name);
    }
    remove(headers, is_of_one_hop);
}

/// Removes every header whose name is meant. Looking at each name costs less than looking for each header that might be
/// there.
pub(crate) fn remove(headers: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    let meant: Vec<HeaderName> = headers.keys().filter(|name| is_meant(name)).cloned().collect();
    for name in meant {
        headers.remove(name);
    }
}

/// Whether a header that is a list has this item.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let is_item = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(item.as_bytes());
    values.any(|value| value.split(|byte| *byte == b',').any(is_item))
}

/// Removes from trailers what may only stand in a head: framing, and what decides where a message goes and who sent it
/// (RFC 9110, 6.5.1).
pub(crate) fn strip_from_trailers(trailers: &mut HeaderMap) {
    let only_in_heads = ["authorization", "cookie", "forwarded", "host"];
    remove(trailers, |name| is_of_one_hop(name) || only_in_heads.contains(&name.as_str()));
}

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
