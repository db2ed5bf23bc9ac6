//! Header names that some servers read as others: `_` and `.` count as `-` there. What the edge decides on or writes itself
//! must not come a second time in such a spelling. Pure.

use http::header::{CONNECTION, HeaderMap, TE};
use http::{HeaderName, HeaderValue};

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

/// Bytes of a name that are read in another spelling: more than any name, or beginning of one, that it is held against.
const MOST_FOLDED: usize = 64;
/// Options that the headers of one hop list together. Honest clients list three; each one is looked up, so that a header of
/// nothing else would cost a hundred times what its bytes cost.
pub(crate) const MOST_OPTIONS: usize = 64;

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

/// Whether headers that are read option by option list more of them than any honest client.
pub(crate) fn lists_too_much(headers: &HeaderMap) -> bool {
    let lists = [CONNECTION, TE];
    let values = lists.iter().flat_map(|name| headers.get_all(name));
    let options = |value: &HeaderValue| 1 + memchr::memchr_iter(b',', value.as_bytes()).count();
    values.map(options).sum::<usize>() > MOST_OPTIONS
}

/// The beginning of the name as such a server reads it, as much of it as any rule looks at; `None` where it reads the same.
pub(crate) fn folded(name: &HeaderName) -> Option<String> {
    let name = name.as_str();
    let is_other = name.bytes().any(|byte| matches!(byte, b'_' | b'.'));
    is_other.then(|| name.get(..MOST_FOLDED).unwrap_or(name).replace(['_', '.'], "-"))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_name_of_any_length_is_folded_as_far_as_rules_look() {
        let long = format!("x_forwarded_{}", "_".repeat(60_000));
        assert!(is_taken_for_the_edges(&name(&long)));
        assert!(!is_taken_for_framing(&name(&format!("content_length{}", "_".repeat(60_000)))));
        let folded = folded(&name(&long)).expect("another spelling");
        assert_eq!(folded.len(), MOST_FOLDED, "and no further");
    }

    #[test]
    fn options_of_one_hop_are_counted_together() {
        let too_many = |connection: usize, te: usize| {
            let list = |count: usize| HeaderValue::from_str(&vec!["a"; count].join(",")).expect("a value");
            let mut map = HeaderMap::new();
            for (name, value) in [(CONNECTION, list(1)), (CONNECTION, list(connection)), (TE, list(te))] {
                map.append(name, value);
            }
            lists_too_much(&map)
        };
        assert!(!too_many(30, MOST_OPTIONS - 31), "at the limit");
        assert!(too_many(30, MOST_OPTIONS - 30) && too_many(MOST_OPTIONS, 0), "one past it");
        assert!(!lists_too_much(&HeaderMap::new()));
    }
}
