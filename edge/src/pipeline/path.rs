//! How the servers behind the gateway may read a path: decoding once, twice or three times, merging slashes, stripping
//! path parameters, treating a backslash as a slash, or folding look-alikes. The client's bytes go upstream, so a path
//! passes only if every one of these readings stays below the prefix on which the gateway decided. Pure, and linear in
//! the path's length: three decoding passes and one scan.
//!
//! # The rule
//! A path that passes has no dot segment in any reading, so no reading climbs out of `/api/<key>/`, of a fixed row's
//! parameter, or of a provider's prefix. Its first three segments are written plainly, so every reading starts with the
//! same ones. Dot segments that stay inside are refused too: clients resolve them before they send (RFC 3986, 5.2.4),
//! so refusing them costs nothing, and servers disagree on which of them stay inside.
//!
//! # Why one scan is enough
//! Decoding changes only escapes. Separators, dots, blanks and parameters that one decoding exposes stay in all further
//! ones, so the fully decoded text shows every dot segment of every intermediate reading.

use std::borrow::Cow;

use smallvec::SmallVec;

/// How many leading segments decide where a request goes; they must be written without escapes.
const DECIDING_SEGMENTS: usize = 3;
/// Nested escapes that are decoded: a proxy, a framework and a careless handler behind the gateway decode once each.
const MAX_NESTING: usize = 3;
/// One more segment than the longest row has, so that counting stops early.
const MAX_ROW_SEGMENTS: usize = 8;
/// Leading segments that identify the provider's own parts: `auth`, `realms`, `master`.
const PROVIDER_SEGMENTS: usize = 3;
/// Names resolved to find those. Later names could matter only through dot segments, which are refused anyway.
const MAX_RESOLVED_NAMES: usize = 32;
/// The identity provider's prefixes.
const PROVIDER_PREFIXES: [&[u8]; 3] = [b"auth", b"realms", b"resources"];
/// Parts that the provider does not expose: administration, probes, metrics, internal routes, a framework's console.
const PROVIDER_RESERVED: [&[u8]; 6] = [b"admin", b"health", b"internal", b"metrics", b"q", b"ready"];

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// `%` without two hexadecimal digits, or no leading slash.
    Malformed,
    /// Servers may read it in different ways, at least one of which differs from the gateway's.
    TwoReadings,
    /// Escapes are nested deeper than any known server decodes.
    TooNested,
}

/// A path as received and fully decoded.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    path: &'a str,
    decoded: Cow<'a, [u8]>,
    is_plain: bool,
}

/// One segment, raw and decoded.
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

impl<'a> Reading<'a> {
    /// Reads a path without judging it.
    pub(crate) fn of(path: &'a str) -> Result<Self, BadPath> {
        if !path.starts_with('/') {
            return Err(BadPath::Malformed);
        }
        if is_plain(path) {
            return Ok(Self { path, decoded: Cow::Borrowed(path.as_bytes()), is_plain: true });
        }
        let mut decoded = Cow::Borrowed(path.as_bytes());
        for pass in 0..MAX_NESTING {
            let Decoded { text, escapes, strays } = decode_once(&decoded);
            if pass == 0 && strays > 0 {
                return Err(BadPath::Malformed);
            }
            if escapes == 0 {
                break;
            }
            decoded = Cow::Owned(text);
        }
        Ok(Self { path, decoded, is_plain: false })
    }

    /// Whether every server reads the path as the gateway does, as far as the decision goes.
    pub(crate) fn reads_one_way(&self) -> Result<(), BadPath> {
        if self.is_plain {
            return Ok(());
        }
        look(&self.decoded)?;
        let hides = |segment: &str| segment.contains(['%', '\\']);
        let mut deciding = self.raw().take(DECIDING_SEGMENTS);
        if deciding.any(hides) { Err(BadPath::TwoReadings) } else { Ok(()) }
    }

    /// Whether the path leads to a part of the provider that is not public: its administration, its own probes and
    /// metrics, its master realm. Call it before [`Self::reads_one_way`], so that it also covers paths that fail that
    /// check.
    pub(crate) fn is_reserved_at_provider(&self) -> bool {
        let names = names(&self.decoded).take(MAX_RESOLVED_NAMES);
        let prefixed = names.clone().next().is_some_and(|first| is_one_of(first, &PROVIDER_PREFIXES));
        if !prefixed {
            return false;
        }
        let mut kept: [&[u8]; PROVIDER_SEGMENTS] = [b""; PROVIDER_SEGMENTS];
        let depth = names.fold(0_usize, |depth, name| match name {
            b"." => depth,
            b".." => depth.saturating_sub(1),
            _ => {
                kept.get_mut(depth).into_iter().for_each(|segment| *segment = name);
                depth.saturating_add(1)
            }
        });
        let mut meant = kept.into_iter().take(depth).peekable();
        let _prefix = meant.next_if(|first| is_one_of(first, &[b"auth"]));
        match (meant.next(), meant.next()) {
            (Some(first), _) if is_one_of(first, &PROVIDER_RESERVED) => true,
            (Some(realms), Some(master)) => {
                is_one_of(realms, &[b"realms"]) && is_one_of(master, &[b"master"])
            }
            _ => false,
        }
    }

    /// Whether an escape hides a separator. Below the provider's prefixes no honest client hides one, and without one a
    /// server that strips parameters before decoding reads the same names as a server that strips them afterwards.
    pub(crate) fn hides_a_separator(&self) -> bool {
        let written = self.path.bytes().filter(|byte| *byte == b'/').count();
        self.decoded.iter().filter(|byte| is_separator(**byte)).count() != written
    }

    /// The raw segments with their decoded text; `None` if there are more than any row has.
    pub(crate) fn segments(&self) -> Option<SmallVec<[Segment<'a>; MAX_ROW_SEGMENTS]>> {
        let mut segments = SmallVec::new();
        for raw in self.raw() {
            if segments.len() == MAX_ROW_SEGMENTS {
                return None;
            }
            segments.push(Segment { raw, decoded: decode(raw.as_bytes())? });
        }
        Some(segments)
    }

    fn raw(&self) -> std::str::Split<'a, char> {
        self.path.strip_prefix('/').unwrap_or(self.path).split('/')
    }
}

/// Whether the path has only one reading: no escape, no backslash, no control or non-ASCII character, no dot at the
/// start of a segment. Merging slashes and stripping parameters create no dot segment in such a path.
pub(crate) fn is_plain(path: &str) -> bool {
    // Branch-free, because nearly every request's path comes through here.
    let (mut odd, mut before) = (0, 0);
    for byte in path.bytes() {
        let class = PLAINNESS.get(usize::from(byte)).copied().unwrap_or(ODD);
        odd |= class & (ODD | before << 1);
        before = class & SLASH;
    }
    odd == 0
}

/// Classes of bytes in a plain path. A dot is odd after a slash: its bit is the slash's, shifted by one.
const ODD: u8 = 1;
const SLASH: u8 = 2;
const DOT: u8 = SLASH << 1;
const PLAINNESS: [u8; 256] = {
    let mut classes = [ODD; 256];
    let mut rest: &mut [u8] = &mut classes;
    let mut byte = 0_u8;
    while let [class, after @ ..] = rest {
        *class = match byte {
            b'%' | b'\\' => ODD,
            b'/' => SLASH,
            b'.' => DOT,
            b'!'..=b'~' => 0,
            _ => ODD,
        };
        byte = byte.wrapping_add(1);
        rest = after;
    }
    classes
};

/// What the current segment holds so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SoFar {
    Nothing,
    /// Dots, and blanks, which some servers trim.
    Dots,
    Other,
}

/// Refuses a decoded text that has a dot segment in some server's reading.
fn look(decoded: &[u8]) -> Result<(), BadPath> {
    let mut so_far = SoFar::Nothing;
    let mut rest = decoded;
    while let [byte, after @ ..] = rest {
        if so_far == SoFar::Other && byte.is_ascii_alphanumeric() {
            // The common case.
            rest = after;
            continue;
        }
        let (sign, after) = match byte {
            b'%' => (escape(after)?, after),
            0x80.. => beyond_ascii(rest)?,
            _ => (of_ascii(*byte), after),
        };
        so_far = match (sign, so_far) {
            (Sign::Control, _) | (Sign::Separator | Sign::Parameters, SoFar::Dots) => {
                return Err(BadPath::TwoReadings);
            }
            (Sign::Separator, _) => SoFar::Nothing,
            (Sign::Dot, SoFar::Nothing) => SoFar::Dots,
            (Sign::Parameters | Sign::Other, _) => SoFar::Other,
            (Sign::Dot | Sign::Blank, unchanged) => unchanged,
        };
        rest = after;
    }
    if so_far == SoFar::Dots { Err(BadPath::TwoReadings) } else { Ok(()) }
}

/// The meaning of a character in the search for dot segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Separator,
    Dot,
    /// Trimmed or dropped by some servers.
    Blank,
    /// Ends a segment's name for some servers: parameters, a query, a fragment.
    Parameters,
    /// Never in an honest path; some servers end the path there, drop the character, or start a new line.
    Control,
    Other,
}

const fn of_ascii(byte: u8) -> Sign {
    match byte {
        b'/' | b'\\' => Sign::Separator,
        b'.' => Sign::Dot,
        b' ' => Sign::Blank,
        b';' | b'?' | b'#' => Sign::Parameters,
        0..0x20 | 0x7f => Sign::Control,
        _ => Sign::Other,
    }
}

/// Classifies a `%` left after all passes: a literal one, or one escape too many.
fn escape(after: &[u8]) -> Result<Sign, BadPath> {
    match after {
        [high, low, ..] if hex(*high).is_some() && hex(*low).is_some() => Err(BadPath::TooNested),
        // `%u002e`, which only some servers decode.
        [b'u' | b'U', first, second, third, fourth, ..]
            if [first, second, third, fourth].into_iter().all(|digit| hex(*digit).is_some()) =>
        {
            Err(BadPath::TwoReadings)
        }
        _ => Ok(Sign::Other),
    }
}

/// Classifies a leading non-ASCII character: the overlong forms that a careless decoder turns into ASCII, and
/// [`look_alike`]s.
fn beyond_ascii(text: &[u8]) -> Result<(Sign, &[u8]), BadPath> {
    match text {
        [0xc0 | 0xc1, ..]
        | [0xe0, 0x80..0xa0, ..]
        | [0xf0, 0x80..0x90, ..]
        | [0xf8, 0x80..0x88, ..]
        | [0xfc, 0x80..0x84, ..] => Err(BadPath::TwoReadings),
        [_, after @ ..] => Ok(look_alike(text).unwrap_or((Sign::Other, after))),
        [] => Ok((Sign::Other, text)),
    }
}

/// The sign that a look-alike becomes in servers that normalise Unicode (NFC, NFKC), that map text to a Windows code page
/// (best fit), or that trim or drop what is not seen.
const fn look_alike(text: &[u8]) -> Option<(Sign, &[u8])> {
    match text {
        // U+FF0E, U+FE52, U+2024 and, two at once, U+2025 and U+FE30.
        [0xef, 0xbc, 0x8e, after @ ..]
        | [0xef, 0xb9, 0x92, after @ ..]
        | [0xef, 0xb8, 0xb0, after @ ..]
        | [0xe2, 0x80, 0xa4 | 0xa5, after @ ..] => Some((Sign::Dot, after)),
        // Slashes and backslashes: U+FF0F, U+FF3C, U+2044, U+2215, U+2216, U+29F5, U+29F8, U+29F9, U+FE68, and the yen and won
        // signs U+00A5, U+20A9, U+FFE5, U+FFE6.
        [0xef, 0xbc, 0x8f | 0xbc, after @ ..]
        | [0xe2, 0x81, 0x84, after @ ..]
        | [0xe2, 0x88, 0x95 | 0x96, after @ ..]
        | [0xe2, 0xa7, 0xb5 | 0xb8 | 0xb9, after @ ..]
        | [0xef, 0xb9, 0xa8, after @ ..]
        | [0xc2, 0xa5, after @ ..]
        | [0xe2, 0x82, 0xa9, after @ ..]
        | [0xef, 0xbf, 0xa5 | 0xa6, after @ ..] => Some((Sign::Separator, after)),
        // Semicolons U+FF1B, U+037E, U+FE54, U+FE14; question marks U+FF1F, U+FE56, U+FE16; number signs U+FF03, U+FE5F.
        [0xef, 0xbc, 0x9b | 0x9f | 0x83, after @ ..]
        | [0xcd, 0xbe, after @ ..]
        | [0xef, 0xb9, 0x94 | 0x96 | 0x9f, after @ ..]
        | [0xef, 0xb8, 0x94 | 0x96, after @ ..] => Some((Sign::Parameters, after)),
        // Blanks: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000. Invisible: U+00AD, U+034F,
        // U+180E, U+200B to U+200F, U+202A to U+202E, U+2060 to U+206F, U+FE00 to U+FE0F, U+FEFF.
        [0xc2, 0x85 | 0xa0 | 0xad, after @ ..]
        | [0xcd, 0x8f, after @ ..]
        | [0xe1, 0x9a, 0x80, after @ ..]
        | [0xe1, 0xa0, 0x8e, after @ ..]
        | [0xe2, 0x80, 0x80..=0x8f | 0xa8..=0xaf, after @ ..]
        | [0xe2, 0x81, 0x9f..=0xaf, after @ ..]
        | [0xe3, 0x80, 0x80, after @ ..]
        | [0xef, 0xb8, 0x80..=0x8f, after @ ..]
        | [0xef, 0xbb, 0xbf, after @ ..] => Some((Sign::Blank, after)),
        _ => None,
    }
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

/// The names in a decoded text as the most lenient server reads them: without parameters, blanks and empty names.
fn names(decoded: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let is_end = |byte: &u8| matches!(of_ascii(*byte), Sign::Parameters | Sign::Control);
    decoded
        .split(|byte| is_separator(*byte))
        .map(move |segment| segment.split(is_end).next().unwrap_or_default().trim_ascii())
        .filter(|name| !name.is_empty())
}

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Decodes a query name as a form parser does: `+` is a space. `None` if it cannot be decoded.
pub(crate) fn decode_text(text: &str) -> Option<Vec<u8>> {
    decode(text.replace('+', " ").as_bytes()).map(Cow::into_owned)
}

/// Percent-decodes a text; `None` if a `%` starts no escape.
fn decode(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !text.contains(&b'%') {
        return Some(Cow::Borrowed(text));
    }
    let Decoded { text, strays, .. } = decode_once(text);
    (strays == 0).then_some(Cow::Owned(text))
}

/// The result of one pass of percent-decoding.
struct Decoded {
    text: Vec<u8>,
    escapes: usize,
    /// `%` signs that start no escape, and stay.
    strays: usize,
}

fn decode_once(text: &[u8]) -> Decoded {
    let mut decoded = Decoded { text: Vec::with_capacity(text.len()), escapes: 0, strays: 0 };
    let mut rest = text;
    while let Some((before, after)) = until_percent(rest) {
        decoded.text.extend_from_slice(before);
        let escaped = match after {
            [high, low, after @ ..] => hex(*high).zip(hex(*low)).map(|digits| (digits, after)),
            _ => None,
        };
        if let Some(((high, low), after)) = escaped {
            decoded.text.push(high << 4 | low);
            decoded.escapes += 1;
            rest = after;
        } else {
            decoded.text.push(b'%');
            decoded.strays += 1;
            rest = after;
        }
    }
    decoded.text.extend_from_slice(rest);
    decoded
}

/// The text before the next `%`, and the text after it.
fn until_percent(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if let [b'%', after @ ..] = text {
        return Some((&[], after));
    }
    let (before, rest) = text.split_at_checked(memchr::memchr(b'%', text)?)?;
    Some((before, rest.get(1..).unwrap_or_default()))
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Encodes a text as one path segment or query value: everything but unreserved characters is escaped.
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

    fn outcome(path: &str) -> Result<(), BadPath> {
        Reading::of(path)?.reads_one_way()
    }

    fn is_reserved(path: &str) -> bool {
        Reading::of(path).expect("well formed").is_reserved_at_provider()
    }

    /// Each character between what makes a dot segment of it, and the same among honest text.
    #[test]
    fn look_alikes_make_no_dot_segments() {
        let dots = ["\u{ff0e}", "\u{fe52}", "\u{2024}", "\u{2025}", "\u{fe30}"];
        let ends = [
            "\u{ff0f}", "\u{2044}", "\u{2215}", "\u{29f8}", "\u{ff3c}", "\u{fe68}", "\u{2216}", "\u{29f5}",
            "\u{29f9}", "\u{a5}", "\u{20a9}", "\u{ffe5}", "\u{ffe6}", "\u{ff1b}", "\u{37e}", "\u{fe54}",
            "\u{fe14}", "\u{ff1f}", "\u{fe56}", "\u{fe16}", "\u{ff03}", "\u{fe5f}",
        ];
        let blanks = [
            "\u{85}", "\u{a0}", "\u{1680}", "\u{2000}", "\u{200a}", "\u{2028}", "\u{2029}", "\u{202f}",
            "\u{205f}", "\u{3000}", "\u{ad}", "\u{34f}", "\u{180e}", "\u{200b}", "\u{200f}", "\u{202a}",
            "\u{202e}", "\u{2060}", "\u{206f}", "\u{fe00}", "\u{fe0f}", "\u{feff}",
        ];
        let two = Err(BadPath::TwoReadings);
        for dot in dots {
            assert_eq!(outcome(&format!("/api/docs/v1/x/{dot}/y")), two, "{}", dot.escape_unicode());
            assert_eq!(outcome(&format!("/api/docs/v1/x/a{dot}b/y")), Ok(()), "{}", dot.escape_unicode());
        }
        for end in ends {
            assert_eq!(outcome(&format!("/api/docs/v1/x/..{end}y")), two, "{}", end.escape_unicode());
            assert_eq!(outcome(&format!("/api/docs/v1/x/100{end}y")), Ok(()), "{}", end.escape_unicode());
        }
        for blank in blanks {
            for dotted in [format!("..{blank}"), format!("{blank}.."), format!(".{blank}.")] {
                assert_eq!(outcome(&format!("/api/docs/v1/x/{dotted}/y")), two, "{}", blank.escape_unicode());
            }
            assert_eq!(outcome(&format!("/api/docs/v1/x/a{blank}b/y")), Ok(()), "{}", blank.escape_unicode());
        }
    }

    #[test]
    fn honest_paths_read_one_way() {
        for path in [
            "/",
            "/api/org/me/companies",
            "/api/docs/v1/a%20b",
            "/api/docs/v1/",
            "/api/docs/v1/a%2Fb",
            "/api/docs/v1/a%5cb",
            "/api/docs/v1/100%25",
            "/api/docs/v1/100%2525",
            "/api/docs/v1/%25zz",
            "/api/docs/v1/%25u",
            "/api/docs/v1/%C3%BC",
            "/api/docs/v1/ü",
            "/api/docs/v1/%e8%b3%87%e6%96%99%ef%bc%8etxt",
            "/api/docs/v1/%fc",
            "/api/docs/v1/..foo",
            "/api/docs/v1/foo..",
            "/api/docs/v1/a..b/.c",
            "/api/docs/v1/a;b=..",
            "/api/docs/v1/%3B)",
            "/api/docs/v1//a//",
            "/.well-known/authzen-configuration",
        ] {
            assert_eq!(outcome(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_path_that_reads_in_two_ways_is_refused() {
        for path in [
            "/api/timesheet/../helpdesk/v1",
            "/api/timesheet/v1/../../helpdesk/v1/x",
            "/api/timesheet/v1/../../../internal/authz/grants",
            "/api/docs/v1/x/../y",
            "/api/docs/v1/x/./y",
            "/api/docs/v1/x/.",
            "/api/docs/v1/..;/x",
            "/api/docs/v1/.;a=b/x",
            "/api/docs/v1/%2e%2e;/x",
            "/api/docs/v1/..%3b/x",
            "/api/docs/v1/..%253bx/y",
            "/api/docs/v1/x%2f..",
            "/api/docs/v1/x%5c..%5cy",
            "/api/docs/v1/x\\..\\y",
            "/api/docs/v1/%25252e/x",
            "/api/docs/v1/..%20/x",
            "/api/docs/v1/%20.%20./x",
            "/api/docs/v1/.../x",
            "/api/docs/v1/..%3fx",
            "/api/docs/v1/..%23x",
            "/api/docs/v1/%00",
            "/api/docs/v1/x%2500",
            "/api/docs/v1/x%0a",
            "/api/docs/v1/x%7f",
            "/api/docs/v1/%c0%ae",
            "/api/docs/v1/%c1%1c",
            "/api/docs/v1/%e0%80%af",
            "/api/docs/v1/%f0%80%80%ae",
            "/api/docs/v1/%f8%80%80%80%ae",
            "/api/docs/v1/%fc%80%80%80%80%ae",
            "/api/docs/v1/%ef%bc%8e./x",
            "/api/docs/v1/．．/x",
            "/api/docs/v1/%e2%80%a5/x",
            "/api/docs/v1/..%ef%bc%8fx",
            "/api/docs/v1/..%e2%88%95x",
            "/api/docs/v1/..%ef%bc%9bx",
            "/api/docs/v1/%25u002e",
            "/api/%2e%2e/internal/x",
            "/api/time%73heet/v1/x",
            "/api/timesheet/%76%31/x",
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
        for path in ["", "*", "api/x", "/api/docs/v1/%zz", "/api/docs/v1/%2", "/api/docs/v1/%u002e"] {
            assert_eq!(outcome(path), Err(BadPath::Malformed), "{path}");
        }
    }

    #[test]
    fn escapes_are_read_three_deep_and_refused_deeper_wherever_they_stand() {
        for (depth, expected) in
            [(1, Ok(())), (2, Ok(())), (MAX_NESTING, Ok(())), (MAX_NESTING + 1, Err(BadPath::TooNested))]
        {
            let escape = format!("%{}41", "25".repeat(depth - 1));
            for path in [format!("/api/docs/v1/{escape}"), format!("/api/docs/v1/x/y/z;{escape}/x")] {
                assert_eq!(outcome(&path), expected, "{path}");
            }
        }
    }

    /// Every text a server may derive from this one: all combinations of decoding, merging, stripping and backslashes.
    fn readings(path: &str) -> Vec<String> {
        let decode = |text: &str| String::from_utf8_lossy(&decode_once(text.as_bytes()).text).into_owned();
        let strip = |text: &str| {
            let names = text.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
            names.collect::<Vec<_>>().join("/")
        };
        let merge = |text: &str| {
            let mut merged = text.to_owned();
            while merged.contains("//") {
                merged = merged.replace("//", "/");
            }
            merged
        };
        let slash = |text: &str| text.replace('\\', "/");
        let steps: [&dyn Fn(&str) -> String; 4] = [&decode, &strip, &merge, &slash];
        let mut found = vec![path.to_owned()];
        let mut last = found.clone();
        for _ in 0..5 {
            last = last.iter().flat_map(|text| steps.iter().map(|step| step(text))).collect();
            last.sort();
            last.dedup();
            last.retain(|text| !found.contains(text));
            found.extend(last.clone());
        }
        found
    }

    #[test]
    fn no_reading_of_a_path_that_goes_on_has_a_dot_segment_or_begins_otherwise() {
        const PIECES: [&str; 12] =
            ["/", ".", "..", "%2e", "%252e", "%2f", "%25", "2f", ";", "%3b", "\\", "x"];
        let mut rests = vec![String::new()];
        let mut passed = 0;
        for _ in 0..3 {
            rests = rests.iter().flat_map(|rest| PIECES.map(|piece| format!("{rest}{piece}"))).collect();
            for rest in &rests {
                let path = format!("/api/docs/v1/{rest}");
                if outcome(&path).is_err() {
                    continue;
                }
                passed += 1;
                for reading in readings(&path) {
                    let dots = reading.split('/').any(|segment| segment == "." || segment == "..");
                    assert!(reading.starts_with("/api/docs/v1/") && !dots, "{path} as {reading}");
                }
            }
        }
        assert!(passed > 300, "{passed}");
    }

    #[test]
    fn a_plain_path_is_judged_as_if_it_were_read() {
        const LETTERS: [char; 7] = ['/', '.', '%', '2', 'e', '\\', ';'];
        let mut paths = vec!["/".to_owned()];
        let mut plain = 0;
        for _ in 0..6 {
            paths = paths.iter().flat_map(|path| LETTERS.map(|letter| format!("{path}{letter}"))).collect();
            for path in paths.iter().filter(|path| is_plain(path)) {
                plain += 1;
                assert_eq!(look(path.as_bytes()), Ok(()), "{path}");
            }
        }
        assert!(plain > 1_000, "{plain}");
        for path in ["/a b", "/a\tb", "/ü", "/a\u{7f}"] {
            assert!(!is_plain(path), "{path:?}");
        }
    }

    #[test]
    fn the_providers_own_parts_are_known_in_every_spelling() {
        for path in [
            "/auth/admin",
            "/auth/admin/realms/platform/users",
            "/auth/ADMIN/",
            "/auth/%61dmin/x",
            "/auth/%2561dmin/x",
            "/auth//admin/x",
            "/auth/admin;a=b/x",
            "/auth/x/../admin/x",
            "/auth/x/%2e%2e/admin/x",
            "/auth/x%2f..%2fadmin",
            "/realms/..%2fadmin",
            "/realms/master",
            "/auth/realms/master/protocol/openid-connect/token",
            "/realms//master;x/y",
            "/realms/platform/../master/x",
            "/auth/metrics",
            "/auth/internal/x",
            "/auth/health/ready",
            "/auth/ready",
            "/auth/Ready/x",
            "/auth/%20ready%20",
            "/auth/;x/ready",
            "/auth/q/dev",
            "/%61uth/ready",
        ] {
            assert!(is_reserved(path), "{path}");
        }
        for path in [
            "/auth/realms/platform/protocol/openid-connect/auth",
            "/resources/a1/admin/x.css",
            "/auth/realms/admin/x",
            "/auth/readiness",
            "/auth",
            "/realms/ready",
            "/",
            "/admin",
            "/api/docs/v1/..%2f..%2f..%2fmetrics",
        ] {
            assert!(!is_reserved(path), "{path}");
        }
    }

    #[test]
    fn a_hidden_separator_is_found_at_every_depth() {
        for path in ["/realms/p/x%2fy", "/realms/p/x%252fy", "/realms/p/x%5cy", "/realms/p/x\\y"] {
            assert!(Reading::of(path).expect("well formed").hides_a_separator(), "{path}");
        }
        for path in ["/realms/p/x/y", "/realms/p/x%20y", "/realms/p//x;y"] {
            assert!(!Reading::of(path).expect("well formed").hides_a_separator(), "{path}");
        }
    }

    #[test]
    fn more_segments_than_a_row_has_are_not_counted() {
        let path = "/x".repeat(MAX_ROW_SEGMENTS);
        let count = |path: &str| {
            let reading = Reading::of(path).expect("well formed");
            reading.segments().map(|segments| segments.len())
        };
        assert_eq!(count(&path), Some(MAX_ROW_SEGMENTS));
        assert_eq!(count(&format!("{path}/x")), None);
    }

    #[test]
    fn an_encoded_text_is_one_segment() {
        assert_eq!(encode("a-1.b_~"), "a-1.b_~");
        assert_eq!(encode("f:1/ü&="), "f%3A1%2F%C3%BC%26%3D");
    }
}
