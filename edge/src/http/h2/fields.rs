//! [`Fields`]: parses header blocks (HPACK, RFC 7541) as far as needed to tell whether a `:path` has a fragment,
//! whether there is any pseudo-header, and which fields make the message malformed for `h2`. This takes the bounds of
//! fields and the entries of the dynamic table. `h2` parses each frame of a block separately and forgets a defect found
//! in one that ends within a literal, so this check cannot be left to it. Everything else is.

use std::collections::VecDeque;
use std::ops::Range;

use http::{HeaderValue, Method, StatusCode};

use crate::http::h2::text::{Text, number};

/// `SETTINGS_HEADER_TABLE_SIZE`, which the gateway leaves at its default.
const MAX_TABLE_BYTES: usize = 4_096;
/// The cost of an entry besides its name and value (RFC 7541, 4.1).
const ENTRY_OVERHEAD: usize = 32;
/// Lengths of the names in the static table (RFC 7541, appendix A).
const STATIC_NAMES: [usize; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
    12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];
/// `:scheme` in the static table. Its value may be any text.
const SCHEME: usize = 6;
/// `transfer-encoding` in the static table.
const TRANSFER_ENCODING: usize = 57;

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    /// Its only allowed value is `trailers` (RFC 9113, 8.2.2).
    Te,
    Authority,
    Method,
    Scheme,
    Path,
    PathWithFragment,
    Protocol,
    Status,
    /// `h2` treats it as a connection error, or it is a connection-specific field (RFC 9113, 8.2.2).
    Malformed,
}

impl Kind {
    /// The kind of a field whose name is in the static table.
    const fn of_static(index: usize) -> Self {
        match index {
            1 => Self::Authority,
            2 | 3 => Self::Method,
            4 | 5 => Self::Path,
            SCHEME | 7 => Self::Scheme,
            8..=14 => Self::Status,
            TRANSFER_ENCODING => Self::Malformed,
            _ => Self::Regular,
        }
    }

    /// The kind of a field with this name.
    fn of(name: &[u8]) -> Self {
        match name {
            b":path" => Self::Path,
            b":method" => Self::Method,
            b":status" => Self::Status,
            b":authority" => Self::Authority,
            b":protocol" => Self::Protocol,
            b":scheme" => Self::Scheme,
            b"te" => Self::Te,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Self::Malformed
            }
            [_, ..] if name.iter().all(|byte| is_of_name(*byte)) => Self::Regular,
            _ => Self::Malformed,
        }
    }

    /// The kind of a field with this value; `None` if the value cannot be decoded.
    fn with(self, value: Text<'_>) -> Option<Self> {
        let is_right = match self {
            Self::Malformed => false,
            Self::Te => *value.decoded()? == *b"trailers",
            Self::Method => Method::from_bytes(&value.decoded()?).is_ok(),
            Self::Status => StatusCode::from_bytes(&value.decoded()?).is_ok(),
            _ if value.is_visible() => true,
            Self::Regular => HeaderValue::from_bytes(&value.decoded()?).is_ok(),
            Self::Authority | Self::Scheme | Self::Path | Self::PathWithFragment | Self::Protocol => {
                str::from_utf8(&value.decoded()?).is_ok()
            }
        };
        Some(match self {
            _ if !is_right => Self::Malformed,
            Self::Path | Self::PathWithFragment if value.has_fragment()? => Self::PathWithFragment,
            Self::Path | Self::PathWithFragment => Self::Path,
            Self::Regular
            | Self::Te
            | Self::Authority
            | Self::Method
            | Self::Scheme
            | Self::Protocol
            | Self::Status
            | Self::Malformed => self,
        })
    }

    /// The bit of the pseudo-header; 0 if it is none.
    const fn pseudo(self) -> u8 {
        match self {
            Self::Regular | Self::Te | Self::Malformed => 0,
            Self::Authority => 1,
            Self::Method => 1 << 1,
            Self::Scheme => 1 << 2,
            Self::Path | Self::PathWithFragment => 1 << 3,
            Self::Protocol => 1 << 4,
            Self::Status => 1 << 5,
        }
    }
}

/// Whether a name may contain this byte: token characters (RFC 9110, 5.6.2) except capital letters.
const fn is_of_name(byte: u8) -> bool {
    matches!(
        byte,
        b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~'
    )
}

/// The content of a header block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// A `:path` with a fragment.
    pub(crate) fragment: bool,
    /// A field that makes the message malformed for `h2`, or a reference to such a field of an earlier block.
    pub(crate) malformed: bool,
    /// Any field other than a pseudo-header.
    regular: bool,
    /// The pseudo-headers, as bits.
    pseudo: u8,
}

impl Seen {
    /// Whether there is any pseudo-header.
    pub(crate) const fn has_pseudo(self) -> bool {
        self.pseudo != 0
    }

    /// Records a field. Returns whether it may stand here: pseudo-headers come first, and once each (RFC 9113, 8.3).
    fn see(&mut self, kind: Kind) -> bool {
        let is_right = kind != Kind::Malformed && (kind.pseudo() == 0 || self.has_room_for(kind));
        self.fragment |= kind == Kind::PathWithFragment;
        self.malformed |= !is_right;
        self.regular |= matches!(kind, Kind::Regular | Kind::Te);
        self.pseudo |= kind.pseudo();
        is_right
    }

    /// Whether this pseudo-header may come next.
    const fn has_room_for(self, kind: Kind) -> bool {
        !self.regular && self.pseudo & kind.pseudo() == 0
    }
}

/// A literal field of a block.
struct Literal<'a> {
    /// The index of its name; 0 if the name is a string.
    index: usize,
    name_bytes: usize,
    /// The kind given by its name.
    name: Kind,
    kind: Kind,
    value: Text<'a>,
}

/// An entry of the dynamic table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name_bytes: usize,
    value_bytes: usize,
    kind: Kind,
    /// The length of its name in the table of `h2`, if that is no pseudo-header; it may differ from the client's name.
    regular_bytes: Option<usize>,
}

impl Literal<'_> {
    /// The entry that the table keeps for it.
    fn entry(&self) -> Option<Entry> {
        let regular_bytes = (self.name.pseudo() == 0).then_some(self.name_bytes);
        let value_bytes = self.value.decoded_bytes()?;
        Some(Entry { name_bytes: self.name_bytes, value_bytes, kind: self.kind, regular_bytes })
    }
}

impl Entry {
    const fn size(self) -> usize {
        self.name_bytes + self.value_bytes + ENTRY_OVERHEAD
    }
}

/// The parts of a block, from its first malformed field on, that the table keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Where that field starts; `None` in a well-formed block.
    pub(crate) start: Option<usize>,
    pub(crate) kept: Vec<Kept>,
}

/// A literal that the table keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) range: Range<usize>,
    /// Its replacement for `h2`, if it is malformed.
    pub(crate) instead: Option<Instead>,
}

/// A literal that takes the same space in the table as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instead {
    pub(crate) name: Name,
    pub(crate) value_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The name at this index of the tables.
    Indexed(usize),
    /// A string of this length.
    Text(usize),
}

/// The dynamic table of one direction of one connection.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Newest first.
    entries: VecDeque<Entry>,
    bytes: usize,
    most: usize,
    /// The malformed fields of the last block.
    malformed: Malformed,
}

impl Default for Fields {
    fn default() -> Self {
        let malformed = Malformed::default();
        Self { entries: VecDeque::new(), bytes: 0, most: MAX_TABLE_BYTES, malformed }
    }
}

impl Fields {
    /// Parses a complete header block; `None` if it cannot be tracked, or if `h2` cannot be kept from ending the
    /// connection.
    pub(crate) fn read(&mut self, block: &[u8]) -> Option<Seen> {
        self.malformed = Malformed::default();
        let mut rest = block;
        let (mut seen, mut any) = (Seen::default(), false);
        while let Some(first) = rest.first() {
            let start = block.len() - rest.len();
            let (kind, kept) = match first.leading_zeros() {
                0 => (self.kind(number(&mut rest, 7)?)?, None),
                1 => {
                    let literal = self.literal(&mut rest, 6)?;
                    (literal.kind, Some(literal))
                }
                // A size update must precede all fields (RFC 7541, 4.2); `h2` checks this per frame only.
                2 if any => return None,
                2 => {
                    self.resize(number(&mut rest, 5)?)?;
                    continue;
                }
                _ => (self.literal(&mut rest, 4)?.kind, None),
            };
            any = true;
            let is_right = seen.see(kind);
            if seen.malformed {
                self.malformed.start.get_or_insert(start);
            }
            if let Some(literal) = kept {
                let mut entry = literal.entry()?;
                if seen.malformed {
                    let range = start..block.len() - rest.len();
                    let instead =
                        if is_right { None } else { Some(self.mend(&literal, &mut entry, &mut seen)?) };
                    self.malformed.kept.push(Kept { range, instead });
                }
                self.keep(entry);
            }
        }
        Some(seen)
    }

    /// Takes the malformed fields of the last block, with their memory.
    pub(crate) fn take_malformed(&mut self) -> Malformed {
        std::mem::take(&mut self.malformed)
    }

    /// The number of entries in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Parses a literal field.
    fn literal<'a>(&self, rest: &mut &'a [u8], prefix: u32) -> Option<Literal<'a>> {
        let index = number(rest, prefix)?;
        let (name, name_bytes) = if index == 0 {
            let name = Text::take(rest)?.decoded()?;
            (Kind::of(&name), name.len())
        } else {
            (self.kind(index)?, self.name_bytes(index)?)
        };
        let value = Text::take(rest)?;
        Some(Literal { index, name_bytes, name, kind: name.with(value)?, value })
    }

    /// Returns the replacement for a malformed literal that the table keeps; `None` if there is none.
    #[cold]
    fn mend(&self, literal: &Literal<'_>, entry: &mut Entry, seen: &mut Seen) -> Option<Instead> {
        let bytes = entry.name_bytes + entry.value_bytes;
        // A pseudo-header with only a malformed value is replaced by a pseudo-header, so that those after it stay
        // valid.
        let pseudo = match literal.name {
            Kind::Authority => Some((1, Kind::Authority)),
            Kind::Method | Kind::Status | Kind::Scheme => Some((SCHEME, Kind::Scheme)),
            Kind::Path | Kind::PathWithFragment => Some((4, Kind::Path)),
            Kind::Regular | Kind::Te | Kind::Protocol | Kind::Malformed => None,
        };
        let pseudo = pseudo.filter(|(_, kind)| literal.kind == Kind::Malformed && seen.has_room_for(*kind));
        let (name, name_bytes) = if let Some((index, kind)) = pseudo {
            seen.pseudo |= kind.pseudo();
            (Name::Indexed(index), entry.name_bytes)
        } else {
            seen.regular = true;
            self.regular_name(literal, bytes)?
        };
        entry.kind = Kind::Malformed;
        entry.regular_bytes = pseudo.is_none().then_some(name_bytes);
        Some(Instead { name, value_bytes: bytes.checked_sub(name_bytes)? })
    }

    /// Returns a regular name for the replacement of a malformed literal of this size, as long as the original name if
    /// possible, and its length for `h2`. Empty names are impossible.
    fn regular_name(&self, literal: &Literal<'_>, bytes: usize) -> Option<(Name, usize)> {
        match (literal.index, literal.name_bytes) {
            (0, 1..) => return Some((Name::Text(literal.name_bytes), literal.name_bytes)),
            (0, 0) if matches!(bytes, 1 | 2) => return Some((Name::Text(bytes), bytes)),
            (index, _) => {
                if let Some(length) = self.dynamic(index).and_then(|entry| entry.regular_bytes) {
                    return Some((Name::Indexed(index), length));
                }
            }
        }
        // The first after the pseudo-headers; any of equal length will do.
        let regular = (1..).zip(STATIC_NAMES).filter(|(index, _)| Kind::of_static(*index) == Kind::Regular);
        let of_same_length = regular.clone().find(|(_, length)| *length == literal.name_bytes);
        let longest = || regular.filter(|(_, length)| *length <= bytes).max_by_key(|(_, length)| *length);
        let (index, length) = of_same_length.or_else(longest)?;
        Some((Name::Indexed(index), length))
    }

    fn dynamic(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index.checked_sub(STATIC_NAMES.len() + 1)?)
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
        fields.read(block).map(Seen::has_pseudo)
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
            &[0x20, 0x8f, 0xbd],
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

    /// Where a block's first malformed field starts, and what remains of it from there on.
    type Left = (Option<usize>, Vec<(Range<usize>, Option<Instead>)>);

    fn malformed(fields: &mut Fields, block: &[u8]) -> Option<Left> {
        let seen = fields.read(block)?;
        let Malformed { start, kept } = fields.take_malformed();
        assert_eq!(start.is_some(), seen.malformed);
        Some((start, kept.into_iter().map(|kept| (kept.range, kept.instead)).collect()))
    }

    #[test]
    fn a_malformed_field_is_found_in_every_form() {
        for (block, start) in [
            (&b"\x00\x01A\x011"[..], 0),
            (b"\x82\x10\x03a b\x011\x84", 1),
            (b"\x00\x00\x011", 0),
            (b"\x00\x01a\x021\n", 0),
            (b"\x0f\x00\x02\x00\x7f", 0),
            (b"\x00\x04:foo\x00", 0),
            (b"\x00\x01:\x00", 0),
            (b"\x02\x00", 0),
            (b"\x08\x02ok", 0),
            (b"\x04\x02/\xff", 0),
            // `A`, Huffman-coded; and `a: \n`, whose value is.
            (b"\x00\x81\x87\x011", 0),
            (b"\x00\x01a\x84\xff\xff\xff\xf3", 0),
            // Fields of one connection.
            (b"\x82\x00\x0aconnection\x00", 1),
            (b"\x00\x0akeep-alive\x00", 0),
            (b"\x00\x10proxy-connection\x00", 0),
            (b"\x00\x07upgrade\x00", 0),
            (b"\x00\x11transfer-encoding\x00", 0),
            (b"\x90\xb9", 1),
            (b"\x0f\x2a\x00", 0),
            (b"\x00\x02te\x04gzip", 0),
            (b"\x00\x02te\x00", 0),
            (b"\x00\x02te\x09trailers ", 0),
            // Pseudo-headers out of place.
            (b"\x82\x83", 1),
            (b"\x84\x00\x05:path\x01/", 1),
            (b"\x82\x90\x87", 2),
            (b"\x90\x01\x01a", 1),
        ] {
            assert_eq!(malformed(&mut Fields::default(), block), Some((Some(start), vec![])), "{block:x?}");
        }
        for block in [
            &b"\x00\x01a\x03\t \xff"[..],
            b"\x00\x01a\x00",
            b"\x42\x07OPTIONS",
            b"\x04\x02/\n",
            b"\x41\x00",
            b"\x00\x02te\x08trailers",
            b"\x00\x03tea\x04gzip",
            b"\x82\x87\x84\x01\x01a\x00\x09:protocol\x01x\x90\x90",
        ] {
            assert_eq!(malformed(&mut Fields::default(), block), Some((None, vec![])), "{block:x?}");
        }
    }

    #[test]
    fn what_the_table_keeps_of_a_malformed_block_is_left_with_its_size() {
        let text = |name, value_bytes| Some(Instead { name: Name::Text(name), value_bytes });
        let indexed = |index, value_bytes| Some(Instead { name: Name::Indexed(index), value_bytes });
        for (block, start, kept) in [
            (&b"\x40\x01A\x011\x00\x01a\x011\x40\x01a\x011"[..], 0, vec![(0..5, text(1, 1)), (10..15, None)]),
            (b"\x40\x0aconnection\x05close", 0, vec![(0..18, text(10, 5))]),
            (b"\x79\x07chunked", 0, vec![(0..9, indexed(40, 7))]),
            // Only its value is malformed, and those after it keep their places.
            (b"\x42\x03G T\x41\x01a", 0, vec![(0..5, indexed(SCHEME, 3)), (5..8, None)]),
            (b"\x44\x02/\xff", 0, vec![(0..4, indexed(4, 2))]),
            (b"\x87\x42\x03G T\x44\x01/", 1, vec![(1..6, indexed(36, 3)), (6..9, indexed(22, 1))]),
            // Out of order.
            (b"\x82\x43\x01P", 1, vec![(1..4, indexed(36, 1))]),
            (b"\x90\x44\x01/", 1, vec![(1..4, indexed(22, 1))]),
            // Without a name.
            (b"\x40\x00\x011", 0, vec![(0..4, text(1, 0))]),
            (b"\x40\x00\x0212", 0, vec![(0..5, text(2, 0))]),
            (b"\x40\x00\x041234", 0, vec![(0..7, indexed(59, 0))]),
        ] {
            assert_eq!(malformed(&mut Fields::default(), block), Some((Some(start), kept)), "{block:x?}");
        }
        let mut fields = Fields::default();
        assert_eq!(malformed(&mut fields, b"\x40\x01A\x011").expect("mended").0, Some(0));
        assert_eq!(
            malformed(&mut fields, &[0xbe]),
            Some((Some(0), vec![])),
            "refers to it, which `h2` may see"
        );
        assert_eq!(
            malformed(&mut fields, b"\x7e\x012"),
            Some((Some(0), vec![(0..3, indexed(62, 1))])),
            "by its name"
        );
        assert_eq!(malformed(&mut fields, b"\x40\x01a\x011\xbe"), Some((None, vec![])));
        // Here its name has a byte that the value does not.
        assert!(malformed(&mut fields, b"\x40\x00\x011").is_some());
        let longer = malformed(&mut fields, b"\x7e\x0212");
        assert_eq!(longer, Some((Some(0), vec![(0..4, indexed(62, 1))])));
        assert_eq!(malformed(&mut fields, b"\x7e\x00"), None, "no name is as short");
        assert_eq!(malformed(&mut Fields::default(), b"\x40\x00\x00"), None);
    }

    #[test]
    fn a_size_update_stands_before_all_fields() {
        assert!(Fields::default().read(b"\x20\x3f\xe1\x1f\x82").is_some());
        assert!(Fields::default().read(b"\x82\x20").is_none());
    }
}
