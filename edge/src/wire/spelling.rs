//! Header names that some servers read as others: `_` and `.` count as `-` there. What the edge decides on or writes itself
//! must not come a second time in such a spelling. Pure.

use http::HeaderName;
use http::header::{CONNECTION, HeaderMap};

/// Frames a body.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];
/// What an upstream rests on: `Connection` may take away only what concerns this hop.
const RESTED_ON: [&str; 13] = [
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "forwarded",
    "host",
    "idempotency-key",
    "origin",
    "transfer-encoding",
    "x-correlation-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Whether a name would be taken for framing, and is none.
pub(crate) fn is_taken_for_framing(name: &HeaderName) -> bool {
    folded(name).is_some_and(|folded| FRAMING.contains(&folded.as_str()))
}

/// Whether a name would be taken for one that the edge writes, or lets nobody claim.
pub(crate) fn is_taken_for_the_edges(name: &HeaderName) -> bool {
    folded(name).is_some_and(|folded| folded == "x-correlation-id" || claims(&folded))
}

/// Whether a name, in its usual spelling, claims an address, a host, a scheme or a path for the request.
pub(crate) fn claims(name: &str) -> bool {
    let known = matches!(
        name,
        "forwarded" | "x-forwarded" | "x-host" | "x-http-host-override" | "x-real-ip" | "x-rewrite-url"
    );
    known || name.starts_with("x-forwarded-") || name.starts_with("x-original-")
}

/// Whether `Connection` names a header that an upstream rests on.
pub(crate) fn takes_too_much_away(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut names =
        values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    names.any(|name| RESTED_ON.iter().any(|rested_on| name.eq_ignore_ascii_case(rested_on.as_bytes())))
}

/// The name as such a server reads it; `None` where it reads the same.
pub(crate) fn folded(name: &HeaderName) -> Option<String> {
    let name = name.as_str();
    let is_other = name.bytes().any(|byte| matches!(byte, b'_' | b'.'));
    is_other.then(|| name.replace(['_', '.'], "-"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn name(text: &str) -> HeaderName {
        HeaderName::from_bytes(text.as_bytes()).expect("a name")
    }

    #[test]
    fn other_spellings_are_known_and_the_right_one_is_none() {
        for text in ["Content_Length", "content.length", "transfer_encoding"] {
            assert!(is_taken_for_framing(&name(text)), "{text}");
        }
        for text in [
            "X_Forwarded_For",
            "x-forwarded_proto",
            "x.real.ip",
            "x_correlation_id",
            "x_host",
            "x-original_url",
        ] {
            assert!(is_taken_for_the_edges(&name(text)), "{text}");
        }
        for text in ["content-length", "x-forwarded-for", "x-correlation-id", "x_custom", "content_type"] {
            assert!(!is_taken_for_framing(&name(text)) && !is_taken_for_the_edges(&name(text)), "{text}");
        }
    }

    #[test]
    fn connection_takes_away_what_concerns_this_hop_only() {
        let takes = |value: &'static str| {
            takes_too_much_away(&HeaderMap::from_iter([(CONNECTION, HeaderValue::from_static(value))]))
        };
        for value in ["Authorization", "close,host", "te , X-Forwarded-For"] {
            assert!(takes(value), "{value}");
        }
        for value in ["close", "keep-alive, Upgrade, HTTP2-Settings", "x-secret", "TE", ""] {
            assert!(!takes(value), "{value}");
        }
    }
}
