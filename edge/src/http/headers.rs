//! Header rules for every hop: hop-by-hop headers, and names that claim an identity. Pure.

use contract::catalog::REVISION_HEADER;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

use crate::http::spelling;

/// The header that carries the correlation id.
pub(crate) const CORRELATION: HeaderName = HeaderName::from_static(contract::correlation::HEADER);

/// The result of one pass over the names of a head. A rule looks for its headers only if their mark is set: most heads
/// have few of them, and each rule would otherwise scan all names again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const CONNECTION: Self = Self(1);
    pub(crate) const EXPECT: Self = Self(1 << 1);
    pub(crate) const TE: Self = Self(1 << 2);
    pub(crate) const UPGRADE: Self = Self(1 << 3);
    /// Hop-by-hop headers, including those above, and framing.
    pub(crate) const ONE_HOP: Self = Self(1 << 4);
    /// `Forwarded`, or a name that starts like one that claims something, such as the client's identity or address.
    pub(crate) const CLAIM: Self = Self(1 << 5);
    /// A name with `_` or `.`, which some servers read as another name.
    pub(crate) const SPELLED: Self = Self(1 << 6);
    pub(crate) const COOKIE: Self = Self(1 << 7);

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        headers.keys().fold(Self::default(), |marks, name| marks.and(Self::of_name(name)))
    }

    /// Whether any of these marks is set.
    pub(crate) const fn has(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }

    const fn and(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }

    fn of_name(name: &HeaderName) -> Self {
        let name = name.as_str();
        let known = Self::of_known(name);
        if known != Self::default() {
            return known;
        }
        let claim = if spelling::may_claim(name) { Self::CLAIM } else { Self::default() };
        // A plain scan suffices, because names are short.
        let spelled = name.bytes().any(|byte| matches!(byte, b'_' | b'.'));
        if spelled { claim.and(Self::SPELLED) } else { claim }
    }

    fn of_known(name: &str) -> Self {
        match name {
            "te" => Self::TE.and(Self::ONE_HOP),
            "expect" => Self::EXPECT.and(Self::ONE_HOP),
            "upgrade" => Self::UPGRADE.and(Self::ONE_HOP),
            "forwarded" => Self::CLAIM,
            "cookie" => Self::COOKIE,
            "connection" => Self::CONNECTION.and(Self::ONE_HOP),
            "close"
            | "content-length"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "transfer-encoding" => Self::ONE_HOP,
            _ => Self::default(),
        }
    }
}

/// The cost of a header beyond its name and value, as RFC 9113 counts it.
pub(crate) const HEADER_OVERHEAD: usize = 32;

/// Whether a value has leading or trailing white space, which makes an HTTP/2 message malformed (RFC 9113, 8.2.1).
pub(crate) fn has_padded_value(headers: &HeaderMap) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    headers.values().map(HeaderValue::as_bytes).any(|value| is_space(value.first()) || is_space(value.last()))
}

/// The size of a head's headers for limits.
pub(crate) fn size_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD).sum()
}

/// Whether a header is hop-by-hop or frames a body: framing is rebuilt from the body itself, never copied.
pub(crate) fn is_of_one_hop(name: &HeaderName) -> bool {
    Marks::of_known(name.as_str()).has(Marks::ONE_HOP)
}

/// Removes hop-by-hop headers, including those that `Connection` names.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    strip(headers, |_| false);
}

/// Removes hop-by-hop headers and those that only the platform may set from an upstream's answer or informational
/// answer.
pub(crate) fn strip_answer(headers: &mut HeaderMap) {
    strip(headers, is_the_platforms);
}

/// Whether a header of an answer speaks for the whole platform instead of one upstream: which origins may read the
/// answer, which program serves it, and how else it can be reached.
fn is_the_platforms(name: &HeaderName) -> bool {
    let name = name.as_str();
    let known = matches!(
        name,
        REVISION_HEADER | "alt-svc" | "proxy-authentication-info" | "server" | "strict-transport-security"
    );
    known || name.starts_with("access-control-")
}

/// Removes hop-by-hop headers, and every header that matches `is_meant`.
fn strip(headers: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    for name in nominated(headers) {
        headers.remove(name);
    }
    remove(headers, |name| is_of_one_hop(name) || is_meant(name));
}

/// Removes every header that matches `is_meant`. One pass over the names is cheaper than a lookup per possible header.
pub(crate) fn remove(headers: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    let meant: SmallVec<[HeaderName; 4]> = headers.keys().filter(|name| is_meant(name)).cloned().collect();
    for name in meant {
        headers.remove(name);
    }
}

/// Whether a list-valued header contains this item.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let is_item = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(item.as_bytes());
    values.any(|value| value.split(|byte| *byte == b',').any(is_item))
}

/// The trimmed value of a header that is present exactly once.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).map(|value| value.as_bytes().trim_ascii())
}

/// Whether a 101 switches to exactly the protocol that the request asked for.
pub(crate) fn switches_as_asked(asked: &HeaderMap, answer: &HeaderMap) -> bool {
    let both = only(asked, &header::UPGRADE).zip(only(answer, &header::UPGRADE));
    both.is_some_and(|(asked, answer)| asked.eq_ignore_ascii_case(answer))
}

/// The usual options of `Connection`. Headers of these names are removed in any case.
const USUAL_OPTIONS: [&[u8]; 3] = [b"keep-alive", b"close", b"upgrade"];

/// The headers that `Connection` names.
fn nominated(headers: &HeaderMap) -> SmallVec<[HeaderName; 4]> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|name| !USUAL_OPTIONS.iter().any(|option| name.eq_ignore_ascii_case(option)))
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .collect()
}

/// Whether a header claims the user's identity: `x-user-…` after folding `_` and `.`, which some servers read as `-`.
/// Names are already in lower case.
pub(crate) fn claims_identity(name: &HeaderName) -> bool {
    let folded = name.as_str().bytes().map(|byte| if matches!(byte, b'_' | b'.') { b'-' } else { byte });
    folded.take(IDENTITY_PREFIX.len()).eq(IDENTITY_PREFIX.bytes())
}

const IDENTITY_PREFIX: &str = "x-user-";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::forwarded::is_of_family;

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
    fn each_mark_stands_for_its_headers() {
        let all = |marks: &[Marks]| marks.iter().fold(Marks::default(), |all, mark| all.and(*mark));
        let marks = |names: &[&'static str]| {
            Marks::of(
                &names
                    .iter()
                    .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("")))
                    .collect(),
            )
        };
        for (name, its) in [
            ("connection", &[Marks::CONNECTION, Marks::ONE_HOP][..]),
            ("content-length", &[Marks::ONE_HOP]),
            ("transfer-encoding", &[Marks::ONE_HOP]),
            ("expect", &[Marks::EXPECT, Marks::ONE_HOP]),
            ("te", &[Marks::TE, Marks::ONE_HOP]),
            ("upgrade", &[Marks::UPGRADE, Marks::ONE_HOP]),
            ("close", &[Marks::ONE_HOP]),
            ("keep-alive", &[Marks::ONE_HOP]),
            ("http2-settings", &[Marks::ONE_HOP]),
            ("proxy-connection", &[Marks::ONE_HOP]),
            ("proxy-authenticate", &[Marks::ONE_HOP]),
            ("proxy-authorization", &[Marks::ONE_HOP]),
            ("forwarded", &[Marks::CLAIM]),
            ("x-forwarded-for", &[Marks::CLAIM]),
            ("x_user_id", &[Marks::CLAIM, Marks::SPELLED]),
            ("content.length", &[Marks::SPELLED]),
            ("cookie", &[Marks::COOKIE]),
            ("authorization", &[]),
        ] {
            assert_eq!(marks(&[name]), all(its), "{name}");
            assert_eq!(marks(&["accept", name, "host"]), all(its), "{name} among others");
        }
    }

    proptest! {
        /// Where a rule would find a name, the mark that enables the rule is set.
        #[test]
        fn no_rule_would_find_what_has_no_mark(
            text in "(x|http2|proxy|content|transfer|forwarded|te|remote|ssl|cf|client|true)?[-_.]?(user|real|forwarded|correlation|length|encoding|settings|client|connecting)?[-_.]?(id|ip|for|host|proto|cert|verify)?"
        ) {
            let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else { return Ok(()) };
            let marks = Marks::of(&HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(""))]));
            prop_assert!(!claims_identity(&name) || marks.has(Marks::CLAIM), "{name}");
            prop_assert!(!spelling::is_taken_for_framing(&name) || marks.has(Marks::SPELLED), "{name}");
            prop_assert!(!is_of_family(&name) || marks.has(Marks::CLAIM), "{name}");
            prop_assert!(!is_of_one_hop(&name) || marks.has(Marks::ONE_HOP), "{name}");
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
