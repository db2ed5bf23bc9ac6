//! Header rules that hold on every hop: what ends at this hop, and which names claim an identity. Pure.

use http::HeaderMap;
use http::header::{self, HeaderName};

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
