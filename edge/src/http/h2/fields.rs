//! [`Fields`]: reads header blocks (HPACK, RFC 7541) as far as it takes to see whether a `:path` has a fragment, whether
//! there is any pseudo-header, and which fields `h2` would end the connection for: where fields begin and end, and which
//! entries of the dynamic table are which. Everything else is left to `h2`.

use std::collections::VecDeque;
use std::ops::Range;

use http::{HeaderValue, Method, StatusCode};

use crate::http::h2::text::{Text, number};

/// `SETTINGS_HEADER_TABLE_SIZE`, which the edge leaves as it is.
const MAX_TABLE_BYTES: usize = 4_096;
/// What an entry costs beside its name and value (RFC 7541, 4.1).
const ENTRY_OVERHEAD: usize = 32;
/// Lengths of the names in the static table (RFC 7541, appendix A).
const STATIC_NAMES: [usize; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
    12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];

/// What a field is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    /// A pseudo-header whose value is any text.
    Pseudo,
    Method,
    Status,
    Path,
    PathWithFragment,
    /// `h2` takes it for a fault of the whole connection.
    Malformed,
}

impl Kind {
    /// A field of a name in the static table.
    const fn of_static(index: usize) -> Self {
        match index {
            2 | 3 => Self::Method,
            4 | 5 => Self::Path,
            8..=14 => Self::Status,
            1 | 6 | 7 => Self::Pseudo,
            _ => Self::Regular,
        }
    }

    /// A field of this name.
    fn of(name: &[u8]) -> Self {
        match name {
            b":path" => Self::Path,
            b":method" => Self::Method,
            b":status" => Self::Status,
            b":authority" | b":protocol" | b":scheme" => Self::Pseudo,
            [_, ..] if name.iter().all(|byte| is_of_name(*byte)) => Self::Regular,
            _ => Self::Malformed,
        }
    }

    /// A field of this kind of name with a value; `None` where the value cannot be decoded.
    fn with(self, value: Text<'_>) -> Option<Self> {
        let is_right = match self {
            Self::Malformed => false,
            Self::Method => Method::from_bytes(&value.decoded()?).is_ok(),
            Self::Status => StatusCode::from_bytes(&value.decoded()?).is_ok(),
            _ if value.is_visible() => true,
            Self::Regular => HeaderValue::from_bytes(&value.decoded()?).is_ok(),
            Self::Pseudo | Self::Path | Self::PathWithFragment => str::from_utf8(&value.decoded()?).is_ok(),
        };
        Some(match self {
            _ if !is_right => Self::Malformed,
            Self::Path | Self::PathWithFragment if value.has_fragment()? => Self::PathWithFragment,
            Self::Path | Self::PathWithFragment => Self::Path,
            Self::Regular | Self::Pseudo | Self::Method | Self::Status | Self::Malformed => self,
        })
    }
}

/// Whether a name may have this byte: those of a token (RFC 9110, 5.6.2), and no capital letters.
const fn is_of_name(byte: u8) -> bool {
    matches!(
        byte,
        b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~'
    )
}

/// What is in a header block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// A `:path` with a fragment.
    pub(crate) fragment: bool,
    /// Any pseudo-header.
    pub(crate) pseudo: bool,
    /// A field for which `h2` would end the connection, or one that refers to such a field of an earlier block.
    pub(crate) malformed: bool,
}

impl Seen {
    fn see(&mut self, kind: Kind) {
        self.fragment |= kind == Kind::PathWithFragment;
        self.malformed |= kind == Kind::Malformed;
        self.pseudo |= !matches!(kind, Kind::Regular | Kind::Malformed);
    }
}

/// An entry of the dynamic table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name_bytes: usize,
    value_bytes: usize,
    kind: Kind,
}

impl Entry {
    const fn size(self) -> usize {
        self.name_bytes + self.value_bytes + ENTRY_OVERHEAD
    }
}

/// The dynamic table of one direction of one connection.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The newest first.
    entries: VecDeque<Entry>,
    bytes: usize,
    most: usize,
    /// The literals of the last block for which `h2` would end the connection.
    wrong: Vec<Range<usize>>,
}

impl Default for Fields {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: 0, most: MAX_TABLE_BYTES, wrong: Vec::new() }
    }
}

impl Fields {
    /// Reads a whole header block; `None` when it is malformed.
    pub(crate) fn read(&mut self, block: &[u8]) -> Option<Seen> {
        self.wrong.clear();
        let mut rest = block;
        let mut seen = Seen::default();
        while let Some(first) = rest.first() {
            let start = block.len() - rest.len();
            let kind = match first.leading_zeros() {
                0 => self.kind(number(&mut rest, 7)?)?,
                1 => self.literal(&mut rest, 6, true)?,
                2 => {
                    self.resize(number(&mut rest, 5)?)?;
                    continue;
                }
                _ => self.literal(&mut rest, 4, false)?,
            };
            seen.see(kind);
            if kind == Kind::Malformed && first.leading_zeros() > 0 {
                self.wrong.push(start..block.len() - rest.len());
            }
        }
        Some(seen)
    }

    /// The literals of the last block that `h2` must not see.
    pub(crate) fn wrong(&self) -> &[Range<usize>] {
        &self.wrong
    }

    /// Entries of the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A field in letters.
    fn literal(&mut self, rest: &mut &[u8], prefix: u32, is_kept: bool) -> Option<Kind> {
        let index = number(rest, prefix)?;
        let (name, name_bytes) = if index == 0 {
            let name = Text::take(rest)?.decoded()?;
            (Kind::of(&name), name.len())
        } else {
            (self.kind(index)?, self.name_bytes(index)?)
        };
        let value = Text::take(rest)?;
        let kind = name.with(value)?;
        if is_kept {
            self.keep(Entry { name_bytes, value_bytes: value.decoded_bytes()?, kind });
        }
        Some(kind)
    }

    fn kind(&self, index: usize) -> Option<Kind> {
        match index.checked_sub(STATIC_NAMES.len() + 1) {
            Some(index) => self.entries.get(index).map(|entry| entry.kind),
            None => (index > 0).then(|| Kind::of_static(index)),
        }
    }

    fn name_bytes(&self, index: usize) -> Option<usize> {
        match index.checked_sub(STATIC_NAMES.len() + 1) {
            Some(index) => self.entries.get(index).map(|entry| entry.name_bytes),
            None => STATIC_NAMES.get(index.checked_sub(1)?).copied(),
        }
    }

    fn keep(&mut self, entry: Entry) {
        self.shrink(self.most.saturating_sub(entry.size()));
        if entry.size() <= self.most {
            self.bytes += entry.size();
            self.entries.push_front(entry);
        }
    }

    fn resize(&mut self, most: usize) -> Option<()> {
        let fits = most <= MAX_TABLE_BYTES;
        self.most = most.min(MAX_TABLE_BYTES);
        self.shrink(self.most);
        fits.then_some(())
    }

    fn shrink(&mut self, most: usize) {
        while self.bytes > most {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &[u8] = b":path";
    /// The same, Huffman-coded.
    const CODED_PATH: &[u8] = &[0xb9, 0x58, 0xd3, 0x3f];

    fn has_fragment(fields: &mut Fields, block: &[u8]) -> Option<bool> {
        fields.read(block).map(|seen| seen.fragment)
    }

    fn has_pseudo(fields: &mut Fields, block: &[u8]) -> Option<bool> {
        fields.read(block).map(|seen| seen.pseudo)
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit");
        digits
            .chunks(2)
            .map(|pair| u8::try_from(digit(pair[0]) << 4 | digit(pair[1])).expect("a byte"))
            .collect()
    }

    /// Blocks, and the bytes of the table after each.
    fn followed(blocks: &[(&str, usize)]) {
        let mut fields = Fields::default();
        for (block, bytes) in blocks {
            assert_eq!(has_fragment(&mut fields, &unhex(block)), Some(false), "{block}");
            assert_eq!(fields.bytes, *bytes, "{block}");
        }
    }

    #[test]
    fn the_table_is_that_of_the_standards_examples() {
        // RFC 7541, C.3 and C.4: requests, in letters and Huffman-coded.
        followed(&[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", 164),
        ]);
        followed(&[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 57),
            ("8286 84be 5886 a8eb 1064 9cbf", 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 164),
        ]);
        // C.6: answers, with a table of 256 bytes that evicts.
        followed(&[
            (
                "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
                 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                222,
            ),
            ("4883 640e ffc1 c0bf", 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                 d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                 3d50 07",
                215,
            ),
        ]);
    }

    #[test]
    fn a_fragment_is_found_in_every_form_of_a_path_and_nowhere_else() {
        // Huffman-coded: `/a#b` is 011000 00011 111111111010 100011.
        let coded = "0110000001111111111101010001 1111";
        let coded: Vec<u8> = coded
            .split_whitespace()
            .collect::<String>()
            .as_bytes()
            .chunks(8)
            .map(|bits| u8::from_str_radix(str::from_utf8(bits).expect("text"), 2).expect("bits"))
            .collect();
        let coded = [&[0x84], &coded[..]].concat();
        let letters = b"\x04/a#b".to_vec();
        for value in [coded, letters] {
            let block = |parts: &[&[u8]]| [&parts.concat()[..], &value].concat();
            let with = [
                block(&[&[0x04]]),
                block(&[&[0x05]]),
                block(&[&[0x14]]),
                block(&[&[0x44]]),
                block(&[&[0x00, 0x05], PATH]),
                block(&[&[0x10, 0x05], PATH]),
                block(&[&[0x40, 0x84], CODED_PATH]),
                block(&[&[0x82, 0x87, 0x04]]),
            ];
            for with in with {
                assert_eq!(has_fragment(&mut Fields::default(), &with), Some(true), "{with:x?}");
            }
            for without in [block(&[&[0x01]]), block(&[&[0x00, 0x05], b":patj"]), b"\x04\x04/a?b".to_vec()] {
                assert_eq!(has_fragment(&mut Fields::default(), &without), Some(false), "{without:x?}");
            }
        }
    }

    #[test]
    fn a_path_in_the_table_is_known_by_its_place() {
        let mut fields = Fields::default();
        assert_eq!(has_fragment(&mut fields, b"\x44\x04/a#b"), Some(true));
        assert_eq!(has_fragment(&mut fields, &[0xbe]), Some(true), "the whole field again");
        assert_eq!(has_fragment(&mut fields, b"\x40\x01a\x01#"), Some(false), "pushes it one place down");
        assert_eq!(has_fragment(&mut fields, &[0xbe]), Some(false));
        assert_eq!(has_fragment(&mut fields, &[0xbf]), Some(true));
        assert_eq!(has_fragment(&mut fields, b"\x0f\x30\x02/a"), Some(false), "its name with another value");
        assert_eq!(has_fragment(&mut fields, b"\x0f\x30\x02/#"), Some(true));
        assert_eq!(has_fragment(&mut fields, &[0x20, 0xbf]), None, "a table of nothing has no places");
    }

    #[test]
    fn a_pseudo_header_is_found_in_every_form_and_nowhere_else() {
        for with in [
            &[0x81][..],
            &[0x8e],
            b"\x04\x02/x",
            b"\x18\x03200",
            b"\x00\x07:status\x03200",
            &[&[0x00, 0x84], CODED_PATH, b"\x02/x"].concat(),
            // `:status`, Huffman-coded.
            b"\x00\x85\xb8\x84\x8d\x36\xa3\x03200",
            b"\x90\x00\x01a\x01b\x84",
        ] {
            assert_eq!(has_pseudo(&mut Fields::default(), with), Some(true), "{with:x?}");
        }
        for without in [
            &[][..],
            &[0x8f, 0xbd, 0x20],
            b"\x0f\x00\x01:",
            b"\x00\x01a\x05:path",
            b"\x00\x00\x05:path",
            b"\x00\x02a:\x00",
            // `x-a`, Huffman-coded.
            b"\x00\x83\xf2\xb0\xff\x011",
        ] {
            assert_eq!(has_pseudo(&mut Fields::default(), without), Some(false), "{without:x?}");
        }
        let mut fields = Fields::default();
        assert_eq!(has_pseudo(&mut fields, b"\x48\x03200\x40\x01a\x011"), Some(true));
        assert_eq!(has_pseudo(&mut fields, &[0xbe]), Some(false), "a");
        assert_eq!(has_pseudo(&mut fields, &[0xbf]), Some(true), ":status");
        assert_eq!(has_pseudo(&mut fields, b"\x0f\x30\x03404"), Some(true), "by its name");
    }

    #[test]
    fn what_is_malformed_is_said_to_be() {
        for bad in [
            &[0x80][..],
            &[0xbe],
            &[0xff],
            &[0xff, 0x80, 0x80, 0x80, 0x80, 0x01],
            &[0x04],
            &[0x04, 0x05, b'/'],
            &[0x04, 0x82, 0xff, 0xff],
            &[0x44, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x3f, 0xe2, 0x1f],
        ] {
            assert_eq!(has_fragment(&mut Fields::default(), bad), None, "{bad:x?}");
        }
        assert_eq!(
            has_fragment(&mut Fields::default(), &[0x3f, 0xe1, 0x1f]),
            Some(false),
            "a table of 4,096"
        );
    }

    #[test]
    fn names_are_those_that_h2_takes_but_for_a_quote_which_is_of_no_token() {
        for byte in 0..=u8::MAX {
            let taken = http::HeaderName::from_lowercase(&[b'x', byte]).is_ok();
            assert_eq!(Kind::of(&[b'x', byte]) == Kind::Regular, taken && byte != b'"', "{byte}");
        }
    }

    #[test]
    fn a_field_that_would_end_the_connection_is_found_in_every_form() {
        let malformed = |fields: &mut Fields, block: &[u8]| {
            let seen = fields.read(block).expect("it can be followed");
            (seen.malformed, fields.wrong().to_vec())
        };
        for (block, wrong) in [
            (&b"\x00\x01A\x011"[..], 0..5),
            (b"\x82\x10\x03a b\x011\x84", 1..8),
            (b"\x40\x00\x011", 0..4),
            (b"\x00\x01a\x021\n", 0..6),
            (b"\x0f\x00\x02\x00\x7f", 0..5),
            (b"\x00\x04:foo\x00", 0..7),
            (b"\x00\x01:\x00", 0..4),
            (b"\x42\x03G T", 0..5),
            (b"\x02\x00", 0..2),
            (b"\x08\x02ok", 0..4),
            (b"\x04\x02/\xff", 0..4),
            // `A`, Huffman-coded; and `a: \n`, whose value is.
            (b"\x00\x81\x87\x011", 0..5),
            (b"\x00\x01a\x84\xff\xff\xff\xf3", 0..8),
        ] {
            assert_eq!(malformed(&mut Fields::default(), block), (true, vec![wrong]), "{block:x?}");
        }
        for block in
            [&b"\x00\x01a\x03\t \xff"[..], b"\x00\x01a\x00", b"\x42\x07OPTIONS", b"\x04\x02/\n", b"\x41\x00"]
        {
            assert_eq!(malformed(&mut Fields::default(), block), (false, vec![]), "{block:x?}");
        }
        let whole = |bytes| std::iter::once(0..bytes).collect::<Vec<_>>();
        let mut fields = Fields::default();
        assert_eq!(malformed(&mut fields, b"\x40\x01A\x011"), (true, whole(5)));
        assert_eq!(malformed(&mut fields, &[0xbe]), (true, vec![]), "refers to it, which `h2` may see");
        assert_eq!(malformed(&mut fields, b"\x7e\x012"), (true, whole(3)), "by its name");
        assert_eq!(malformed(&mut fields, b"\x40\x01a\x011\xbe"), (false, vec![]));
    }
}
