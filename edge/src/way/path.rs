//! The two readings of a path: the client's bytes, and the decoded form without dot segments. The decision is taken on
//! the second and the first goes upstream, so they must agree where the decision looks: in the first three segments. Pure.

use std::borrow::Cow;

/// How many segments decide where a request goes.
const DECIDING_SEGMENTS: usize = 3;
/// Most paths have no more, so that the list does not grow.
const USUAL_SEGMENTS: usize = 8;

/// A path that cannot be read, or reads two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// `%` without two hexadecimal digits, or no leading slash.
    Malformed,
    /// The two readings differ where the decision looks.
    TwoReadings,
}

/// One segment in both readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) raw: &'a str,
    pub(crate) decoded: Cow<'a, [u8]>,
}

impl Segment<'_> {
    pub(crate) fn is(&self, literal: &str) -> bool {
        self.decoded.as_ref() == literal.as_bytes()
    }
}

/// The path's segments, decoded and without dot segments.
pub(crate) fn read(path: &str) -> Result<Vec<Segment<'_>>, BadPath> {
    let rest = path.strip_prefix('/').ok_or(BadPath::Malformed)?;
    let mut segments: Vec<Segment<'_>> = Vec::with_capacity(USUAL_SEGMENTS);
    for raw in rest.split('/') {
        let decoded = decode(raw.as_bytes()).ok_or(BadPath::Malformed)?;
        match decoded.as_ref() {
            b"." => {}
            b".." => drop(segments.pop()),
            _ => segments.push(Segment { raw, decoded }),
        }
    }
    Ok(segments)
}

/// Whether both readings say the same in the first three segments, and neither hides a separator there.
pub(crate) fn agrees(path: &str, read: &[Segment<'_>]) -> Result<(), BadPath> {
    if is_plain(path) || reads_alike(path, read) { Ok(()) } else { Err(BadPath::TwoReadings) }
}

fn reads_alike(path: &str, read: &[Segment<'_>]) -> bool {
    let written =
        path.strip_prefix('/').unwrap_or(path).split('/').map(str::as_bytes).take(DECIDING_SEGMENTS);
    let meant = read.iter().map(|segment| segment.decoded.as_ref()).take(DECIDING_SEGMENTS);
    let hides = |segment: &[u8]| segment.iter().any(|byte| matches!(byte, b'\\' | 0));
    written.clone().eq(meant) && !written.into_iter().any(hides)
}

/// Whether there is nothing in it that could be read otherwise: no escape, no separator of others, no dot at the beginning
/// of a segment.
pub(crate) fn is_plain(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let dots = byte == b'.' && before == b'/';
        before = byte;
        !dots && !matches!(byte, b'%' | b'\\' | 0)
    })
}

/// Whether the path leads to a part of the provider that is nobody's business outside: its administration, its own
/// probes and metrics, its master realm. `segments` are those after the `/auth` prefix. Everything a server could read
/// into the path counts: repeated encoding, path parameters, doubled slashes, any case.
pub(crate) fn is_reserved_at_provider(segments: &[Segment<'_>]) -> bool {
    let mut meant: Vec<String> = Vec::new();
    for part in segments.iter().flat_map(|segment| as_read_by_anybody(&segment.decoded)) {
        match part.as_str() {
            "" | "." => {}
            ".." => drop(meant.pop()),
            _ => meant.push(part),
        }
    }
    let first = meant.first().map(String::as_str);
    let second = meant.get(1).map(String::as_str);
    matches!(first, Some("admin" | "metrics" | "health" | "q"))
        || (first, second) == (Some("realms"), Some("master"))
}

fn as_read_by_anybody(segment: &[u8]) -> Vec<String> {
    let mut bytes = segment.to_vec();
    while let Some(Cow::Owned(decoded)) = decode(&bytes) {
        bytes = decoded;
    }
    let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    text.split(['/', '\\'])
        .map(|part| part.split([';', '\0']).next().unwrap_or_default().trim().to_owned())
        .collect()
}

/// A query name as a form reader takes it: `+` is a space. `None` when it cannot be decoded.
pub(crate) fn decode_text(text: &str) -> Option<Vec<u8>> {
    decode(text.replace('+', " ").as_bytes()).map(Cow::into_owned)
}

/// Percent-decoding; `None` when a `%` does not begin an escape.
fn decode<B: AsRef<[u8]> + ?Sized>(text: &B) -> Option<Cow<'_, [u8]>> {
    let text = text.as_ref();
    if !text.contains(&b'%') {
        return Some(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let [high, low, after @ ..] = after else { return None };
        decoded.push(hex(*high)? * 16 + hex(*low)?);
        rest = after;
    }
    Some(Cow::Owned(decoded))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A text as one path segment or query value: everything but unreserved characters is escaped.
pub(crate) fn encode(text: &str) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(path: &str) -> Result<String, BadPath> {
        let segments = read(path)?;
        agrees(path, &segments)?;
        Ok(segments.iter().fold(String::new(), |path, segment| path + "/" + segment.raw))
    }

    #[test]
    fn honest_paths_read_one_way() {
        for path in
            ["/", "/api/org/me/companies", "/api/docs/v1/a%20b", "/api/docs/v1/", "/api/docs/v1/a%2Fb"]
        {
            assert_eq!(outcome(path), Ok(path.to_owned()));
        }
        assert_eq!(
            outcome("/api/docs/v1/x/../y"),
            Ok("/api/docs/v1/y".to_owned()),
            "beyond the deciding segments"
        );
    }

    #[test]
    fn a_plain_path_reads_one_way_whatever_is_in_it() {
        const LETTERS: [char; 6] = ['/', '.', '%', '2', 'e', '\\'];
        let mut paths = vec!["/".to_owned()];
        for _ in 0..6 {
            paths = paths.iter().flat_map(|path| LETTERS.map(|letter| format!("{path}{letter}"))).collect();
            for path in paths.iter().filter(|path| is_plain(path)) {
                let segments = read(path).expect("well formed");
                assert!(reads_alike(path, &segments), "{path}");
            }
        }
        assert!(paths.iter().any(|path| is_plain(path)));
    }

    #[test]
    fn a_path_with_two_readings_is_refused() {
        for path in [
            "/api/timesheet/../helpdesk/v1",
            "/api/timesheet/v1/../../helpdesk/v1/x",
            "/api/timesheet/v1/../../../internal/authz/grants",
            "/api/%2e%2e/internal/x",
            "/api/time%73heet/v1/x",
            "/api%2forg/me/companies",
            "/api/org%5cadmin/x",
            "/api\\org/me/x",
            "/api/docs%00/v1",
            "/./api/docs/v1",
            "/api/./docs/v1",
            "/health/../api/docs/v1",
        ] {
            assert_eq!(outcome(path), Err(BadPath::TwoReadings), "{path}");
        }
        for path in ["", "*", "api/x", "/api/docs/v1/%zz", "/api/docs/v1/%2"] {
            assert_eq!(outcome(path), Err(BadPath::Malformed), "{path}");
        }
    }

    #[test]
    fn the_providers_own_parts_are_known_in_every_spelling() {
        for path in [
            "/admin",
            "/admin/realms/platform/users",
            "/ADMIN/",
            "/%61dmin/x",
            "/%2561dmin/x",
            "//admin/x",
            "/admin;a=b/x",
            "/x/../admin/x",
            "/x/%2e%2e/admin/x",
            "/x%2f..%2fadmin",
            "/realms/..%2fadmin",
            "/realms/master",
            "/realms/master/protocol/openid-connect/token",
            "/realms//master;x/y",
            "/realms/platform/../master/x",
            "/metrics",
            "/health/ready",
        ] {
            assert!(is_reserved_at_provider(&read(path).expect("well formed")), "{path}");
        }
        for path in [
            "/realms/platform/protocol/openid-connect/auth",
            "/resources/a1/admin/x.css",
            "/realms/admin/x",
            "/",
        ] {
            assert!(!is_reserved_at_provider(&read(path).expect("well formed")), "{path}");
        }
    }

    #[test]
    fn an_encoded_text_is_one_segment() {
        assert_eq!(encode("a-1.b_~"), "a-1.b_~");
        assert_eq!(encode("f:1/ü&="), "f%3A1%2F%C3%BC%26%3D");
    }
}
