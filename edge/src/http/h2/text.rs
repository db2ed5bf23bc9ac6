//! [`Text`]: a string in a header block, literal or Huffman-coded (RFC 7541, 5.2), and integers.

use std::borrow::Cow;

/// Continuation bytes of a number; `h2` accepts no more.
const MAX_NUMBER_BYTES: u32 = 4;
/// Set if a string is Huffman-coded.
pub(crate) const CODED: u8 = 0x80;

/// Reads a number with a prefix of `prefix` bits (RFC 7541, 5.1).
pub(crate) fn number(rest: &mut &[u8], prefix: u32) -> Option<usize> {
    let full = u8::MAX.checked_shr(8 - prefix)?;
    let (first, mut after) = rest.split_first()?;
    let mut value = usize::from(first & full);
    if value == usize::from(full) {
        let mut shift = 0;
        loop {
            let (byte, later) = after.split_first()?;
            after = later;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift >= 7 * MAX_NUMBER_BYTES {
                return None;
            }
        }
    }
    *rest = after;
    Some(value)
}

/// A string as encoded in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    bytes: &'a [u8],
    is_coded: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let is_coded = rest.first()? & CODED != 0;
        let length = number(rest, 7)?;
        let (bytes, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(Self { bytes, is_coded })
    }

    /// The decoded length in bytes; `None` if the string cannot be decoded.
    pub(crate) fn decoded_bytes(self) -> Option<usize> {
        if self.is_coded { symbols(self.bytes, |_| {}) } else { Some(self.bytes.len()) }
    }

    pub(crate) fn decoded(self) -> Option<Cow<'a, [u8]>> {
        if !self.is_coded {
            return Some(Cow::Borrowed(self.bytes));
        }
        let mut decoded = Vec::with_capacity(self.bytes.len().saturating_mul(8) / 5);
        symbols(self.bytes, |byte| decoded.push(byte))?;
        Some(Cow::Owned(decoded))
    }

    /// Whether the string contains only visible ASCII and spaces. The codes of all other bytes have a beginning that most
    /// texts do not contain, so few need be decoded.
    pub(crate) fn is_visible(self) -> bool {
        let mut all = true;
        if !self.is_coded {
            self.bytes.iter().for_each(|byte| all &= is_visible(*byte));
        } else if may_hide(self.bytes) {
            all = symbols(self.bytes, |byte| all &= is_visible(byte)).is_some() && all;
        }
        all
    }

    pub(crate) fn has_fragment(self) -> Option<bool> {
        if !self.is_coded {
            return Some(memchr::memchr(b'#', self.bytes).is_some());
        }
        // The code of `#` starts with nine ones, too.
        if !has_nine_ones(self.bytes) {
            return Some(false);
        }
        let mut found = false;
        symbols(self.bytes, |byte| found |= byte == b'#')?;
        Some(found)
    }
}

const fn is_visible(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct Codes {
    bits: u32,
    /// The first value above them, left-aligned in 32 bits.
    limit: u64,
    /// The number of codes up to this length.
    count: u64,
}

/// The number of codes per length in bits (RFC 7541, appendix B): codes are ordered by length.
static LENGTHS: [Codes; 21] = {
    const COUNTS: [(u32, u64); 21] = [
        (5, 10),
        (6, 26),
        (7, 32),
        (8, 6),
        (10, 5),
        (11, 3),
        (12, 2),
        (13, 6),
        (14, 2),
        (15, 3),
        (19, 3),
        (20, 8),
        (21, 13),
        (22, 26),
        (23, 29),
        (24, 12),
        (25, 4),
        (26, 15),
        (27, 19),
        (28, 29),
        // The fourth one is the end-of-string symbol, which must not occur in a string.
        (30, 3),
    ];
    let mut lengths = [Codes { bits: 0, limit: 0, count: 0 }; 21];
    let (mut limit, mut before) = (0, 0);
    let (mut rest, mut counts): (&mut [Codes], &[(u32, u64)]) = (&mut lengths, &COUNTS);
    while let ([codes, after @ ..], [(bits, count), later @ ..]) = (rest, counts) {
        limit += *count << (32 - *bits);
        before += *count;
        *codes = Codes { bits: *bits, limit, count: before };
        (rest, counts) = (after, later);
    }
    lengths
};

/// The symbols of the codes, in order.
static SYMBOLS: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95,
    98, 100, 102, 103, 104, 108, 109, 110, 112, 114, 117, 58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77,
    78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 89, 106, 107, 113, 118, 119, 120, 121, 122, 38, 42, 44, 59, 88,
    90, 33, 34, 40, 41, 63, 39, 43, 124, 35, 62, 0, 36, 64, 91, 93, 126, 94, 125, 60, 96, 123, 92, 195, 208,
    128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230,
    129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190,
    196, 198, 228, 232, 233, 1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158,
    165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239, 9, 142, 144, 145, 148, 159, 171, 206,
    215, 225, 236, 237, 199, 207, 234, 235, 192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242,
    243, 255, 203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254,
    2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127,
    220, 249, 10, 13, 22,
];

/// A symbol and the length of its code, for every first byte of the codes that have at most eight bits; 0 bits for the
/// others.
static SHORT: [(u8, u32); 256] = {
    let mut short = [(0, 0); 256];
    let mut slots: &mut [(u8, u32)] = &mut short;
    let (mut symbols, mut lengths): (&[u8], &[Codes]) = (&SYMBOLS, &LENGTHS);
    // How many symbols are done, and how many slots the next one has.
    let (mut done, mut slots_of_symbol) = (0, 0);
    while let [slot, after @ ..] = slots {
        let ([symbol, later @ ..], [codes, longer @ ..]) = (symbols, lengths) else { break };
        if codes.bits > u8::BITS {
            break;
        }
        *slot = (*symbol, codes.bits);
        slots_of_symbol += 1;
        if slots_of_symbol == 1 << (u8::BITS - codes.bits) {
            (symbols, slots_of_symbol) = (later, 0);
            done += 1;
            if done == codes.count {
                lengths = longer;
            }
        }
        slots = after;
    }
    short
};

/// Decodes a Huffman-coded string, passing every byte to `each`. Returns the number of bytes.
fn symbols(text: &[u8], mut each: impl FnMut(u8)) -> Option<usize> {
    let mut bytes = text.iter();
    // Left-aligned in 64 bits.
    let (mut bits, mut filled, mut count) = (0_u64, 0_u32, 0);
    loop {
        while filled <= 56 {
            let Some(byte) = bytes.next() else { break };
            bits |= u64::from(*byte) << (56 - filled);
            filled += 8;
        }
        let beyond = u64::MAX.checked_shr(filled).unwrap_or(0);
        if filled < 8 && bits | beyond == u64::MAX {
            return Some(count);
        }
        let window = (bits | beyond) >> 32;
        if let Some((symbol, length @ 1..)) = SHORT.get(usize::try_from(window >> 24).ok()?) {
            filled = filled.checked_sub(*length)?;
            bits <<= length;
            each(*symbol);
            count += 1;
            continue;
        }
        let codes = LENGTHS.iter().find(|codes| window < codes.limit)?;
        filled = filled.checked_sub(codes.bits)?;
        bits <<= codes.bits;
        // The number of codes of this length above this one.
        let above = (codes.limit - 1 - window) >> (32 - codes.bits);
        each(*SYMBOLS.get(usize::try_from(codes.count - 1 - above).ok()?)?);
        count += 1;
    }
}

/// Whether a Huffman-coded string may contain a byte that is not visible: the code of 0 is ten ones and three zeros, and
/// the others begin with fifteen ones.
fn may_hide(mut text: &[u8]) -> bool {
    // Eight bytes at a time, of which the next ones repeat the last two: enough for fifteen bits anywhere.
    let mut found = 0;
    while let Some(eight) = text.first_chunk() {
        found |= begins_hidden(u64::from_be_bytes(*eight));
        text = text.get(6..).unwrap_or_default();
    }
    let mut last = [0; 8];
    last.iter_mut().zip(text).for_each(|(slot, byte)| *slot = *byte);
    found | begins_hidden(u64::from_be_bytes(last)) != 0
}

/// Not 0 if these bits contain ten ones and three zeros, or fifteen ones.
const fn begins_hidden(one: u64) -> u64 {
    let two = one & one << 1;
    let four = two & two << 2;
    let eight = four & four << 4;
    let zeros = !one << 10 & !one << 11 & !one << 12;
    eight & two << 8 & zeros | eight & eight << 7
}

/// Whether nine consecutive bits are ones. Any nine bits lie within two neighbouring bytes.
fn has_nine_ones(text: &[u8]) -> bool {
    let after = text.get(1..).unwrap_or_default();
    let found = text.iter().zip(after).fold(0_u16, |found, (first, second)| {
        let one = u16::from_be_bytes([*first, *second]);
        let two = one & one << 1;
        let four = two & two << 2;
        let eight = four & four << 4;
        found | eight & eight << 1
    });
    found != 0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A string in Huffman code.
    pub(in crate::http::h2) fn encoded(text: &[u8]) -> Vec<u8> {
        let mut bits: Vec<bool> = Vec::new();
        for byte in text {
            let rank = (0..).zip(SYMBOLS).find(|(_, symbol)| symbol == byte).expect("a code").0;
            let codes = LENGTHS.iter().find(|codes| rank < codes.count).expect("a length");
            let code = (codes.limit >> (32 - codes.bits)) - (codes.count - rank);
            bits.extend((0..codes.bits).rev().map(|bit| code >> bit & 1 == 1));
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
    }

    #[test]
    fn the_codes_are_complete() {
        let last = LENGTHS.last().expect("codes");
        assert_eq!(last.limit + (1 << (32 - last.bits)), 1 << 32, "all but the end");
        let mut symbols = SYMBOLS;
        symbols.sort_unstable();
        assert!(symbols.iter().copied().eq(0..=255), "each once");
    }

    #[test]
    fn coded_texts_are_read_to_the_byte() {
        // RFC 7541, C.4 and C.6.
        for (coded, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], "www.example.com"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (
                b"\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3",
                "https://www.example.com",
            ),
        ] {
            let decoded = Text { bytes: coded, is_coded: true }.decoded().expect("a text");
            assert_eq!(std::str::from_utf8(&decoded), Ok(text));
        }
    }

    #[test]
    fn nine_ones_are_found_wherever_they_stand() {
        for length in [2, 3, 7, 8, 9, 14, 15, 16, 22, 40] {
            for at in 0..length * 8 - 8 {
                for ones in [8, 9] {
                    let mut text = vec![0_u8; length];
                    (at..(at + ones).min(length * 8)).for_each(|bit| text[bit / 8] |= 0x80 >> (bit % 8));
                    assert_eq!(
                        has_nine_ones(&text),
                        ones == 9 && at + ones <= length * 8,
                        "{length} {at} {ones}"
                    );
                }
            }
        }
        assert!(!has_nine_ones(&[]) && !has_nine_ones(&[0xff]));
    }

    #[test]
    fn what_is_not_visible_is_found_wherever_it_stands() {
        // `0` has five bits, `a` five, `w` seven, `X` eight; `9` ends in five ones.
        let beside = ["", "0", "00", "w0", "ww", "w00", "9X", "9w9", "XX0", "0000000"];
        for byte in 0..=u8::MAX {
            for before in beside {
                for after in beside {
                    let text = [before.as_bytes(), &[byte], after.as_bytes()].concat();
                    let coded = encoded(&text);
                    let is_visible = Text { bytes: &coded, is_coded: true }.is_visible();
                    assert_eq!(is_visible, (b' '..=b'~').contains(&byte), "{before:?} {byte} {after:?}");
                }
            }
        }
    }

    #[test]
    fn whatever_is_not_visible_is_seen_in_letters_and_coded() {
        for byte in 0..=u8::MAX {
            let is_visible = (b' '..=b'~').contains(&byte);
            assert_eq!(Text { bytes: &[byte], is_coded: false }.is_visible(), is_visible, "{byte}");
            let encoded = encoded(&[byte, b'a']);
            let coded = Text { bytes: &encoded, is_coded: true };
            assert_eq!(coded.decoded().as_deref(), Some(&[byte, b'a'][..]), "{byte}");
            assert!(is_visible || !coded.is_visible(), "{byte}");
        }
    }
}
