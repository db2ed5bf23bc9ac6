//! Rewrites in place a header block that is malformed for `h2`. The crate treats an invalid name or value as an HPACK
//! error (`hpack::Header::new` returns a `DecoderError`, which `codec::framed_read` answers with GOAWAY), where RFC
//! 9113, 8.1.1 demands a stream error; and it resets the stream of a block that is malformed before its last frame, and
//! then treats the next frame as a connection error. From the first malformed field on, the rewritten block contains
//! only fields that the dynamic table keeps, and the replacement of a malformed field takes the same space in the
//! table, so that both tables stay in step. The request is reset in any case.

use crate::http::h2::fields::{Instead, Malformed, Name};
use crate::http::h2::text::CODED;

/// A literal that the table keeps; its index is in the six bits below.
const KEPT: u8 = 0x40;
/// The largest index that fits in one byte, plus one.
const FULL_INDEX: usize = 0x3f;
/// Bits of the shortest code, that of `0`, all of them zero.
const ZERO_BITS: usize = 5;
/// The start of a field named `0` that the table does not keep.
const SPARE_FIELD: [u8; 3] = [0, 1, b'0'];
/// A field of the static table, `accept-encoding`, to fill shorter gaps.
const SPARE_BYTE: u8 = 0x90;

/// Rewrites a block; `None` if that is impossible. Spare bytes at the end are filled with well-formed fields.
pub(crate) fn mend(block: &mut [u8], malformed: &Malformed) -> Option<()> {
    let Some(start) = malformed.start else { return Some(()) };
    let mut mended = Vec::with_capacity(block.len());
    mended.extend_from_slice(block.get(..start)?);
    for kept in &malformed.kept {
        match &kept.instead {
            Some(instead) => put_literal(&mut mended, instead),
            None => mended.extend_from_slice(block.get(kept.range.clone())?),
        }
    }
    let spare = block.len().checked_sub(mended.len())?;
    put_spare(&mut mended, spare);
    block.iter_mut().zip(mended).for_each(|(slot, byte)| *slot = byte);
    Some(())
}

/// Writes a literal of zeros that the table keeps.
fn put_literal(to: &mut Vec<u8>, literal: &Instead) {
    match literal.name {
        Name::Indexed(index) => put_number(to, KEPT, FULL_INDEX, index),
        Name::Text(bytes) => {
            to.push(KEPT);
            put_zeros(to, bytes);
        }
    }
    put_zeros(to, literal.value_bytes);
}

/// Writes filler fields of this total length.
fn put_spare(to: &mut Vec<u8>, mut bytes: usize) {
    while let Some(room) = bytes.checked_sub(SPARE_FIELD.len() + 1) {
        // The length of the value itself takes one byte or more.
        let value = (0..4).filter_map(|more| room.checked_sub(more)).find(|value| {
            let mut length = Vec::new();
            put_number(&mut length, 0, FULL, *value);
            value + length.len() == room + 1
        });
        let value = value.unwrap_or_else(|| room.min(FULL - 1));
        let before = to.len();
        to.extend_from_slice(&SPARE_FIELD);
        put_number(to, 0, FULL, value);
        to.resize(to.len() + value, b'0');
        bytes = bytes.saturating_sub(to.len() - before);
    }
    to.resize(to.len() + bytes, SPARE_BYTE);
}

/// Writes a string of `count` zeros, Huffman-coded: no string of that length is shorter.
fn put_zeros(to: &mut Vec<u8>, count: usize) {
    let bits = count * ZERO_BITS;
    let length = bits.div_ceil(8);
    put_number(to, CODED, FULL, length);
    to.resize(to.len() + length, 0);
    if let Some(last) = to.last_mut().filter(|_| length > 0) {
        // The rest of the last byte is padded with ones.
        *last = (1 << (length * 8 - bits)) - 1;
    }
}

/// The largest length that fits in one byte, plus one.
const FULL: usize = 0x7f;

/// Writes a number after the bits of its first byte; `full` is the largest value that fits there, plus one (RFC 7541,
/// 5.1).
fn put_number(to: &mut Vec<u8>, bits: u8, full: usize, number: usize) {
    let mut byte = |value: usize| to.push(u8::try_from(value).unwrap_or(u8::MAX));
    if number < full {
        return byte(usize::from(bits) | number);
    }
    byte(usize::from(bits) | full);
    let mut rest = number - full;
    while rest >= 0x80 {
        byte(0x80 | rest & 0x7f);
        rest >>= 7;
    }
    byte(rest);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::http::h2::blocks::Blocks;
    use crate::http::h2::fields::Fields;
    use crate::http::h2::text::Text;
    use crate::http::h2::text::tests::encoded;

    /// `:method: GET`, `:scheme: https`, `:path: /`, `:authority: a`.
    const REQUEST: &[u8] = b"\x82\x87\x84\x01\x01a";

    #[derive(Clone, Debug)]
    struct Field {
        /// 0: the name is a string.
        index: u8,
        is_kept: bool,
        is_coded: bool,
        name: Vec<u8>,
        value: Vec<u8>,
    }

    impl Field {
        fn block(&self) -> Vec<u8> {
            let mut block = vec![if self.is_kept { KEPT | self.index } else { 0 }];
            match self.index {
                0 => self.put(&self.name, &mut block),
                index if !self.is_kept && index >= 15 => block = vec![15, index - 15],
                index if !self.is_kept => block = vec![index],
                _ => {}
            }
            self.put(&self.value, &mut block);
            block
        }

        fn put(&self, text: &[u8], to: &mut Vec<u8>) {
            let bytes = if self.is_coded { encoded(text) } else { text.to_vec() };
            to.push(u8::try_from(bytes.len()).expect("short") | if self.is_coded { CODED } else { 0 });
            to.extend(bytes);
        }
    }

    fn fields() -> impl Strategy<Value = Field> {
        let text = || {
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..28),
                proptest::collection::vec(prop_oneof![Just(b'A'), Just(b'\n'), Just(0), Just(b'a')], 0..28),
                proptest::sample::select(vec![
                    "te",
                    "trailers",
                    "connection",
                    ":path",
                    ":method",
                    "GET",
                    "/"
                ])
                .prop_map(|text| text.as_bytes().to_vec()),
            ]
        };
        let index = prop_oneof![3 => Just(0_u8), 1 => 1..62_u8];
        (index, any::<bool>(), any::<bool>(), text(), text()).prop_map(
            |(index, is_kept, is_coded, name, value)| Field { index, is_kept, is_coded, name, value },
        )
    }

    /// HEADERS with `END_STREAM`, and a CONTINUATION after each of these offsets.
    fn frames(stream: u8, block: &[u8], cuts: &[usize]) -> Vec<u8> {
        let (mut frames, mut from, mut kind) = (Vec::new(), 0, [1, 1]);
        for to in cuts.iter().copied().chain([block.len()]) {
            let length = u16::try_from(to - from).expect("a short frame").to_be_bytes();
            kind[1] |= if to == block.len() { 4 } else { 0 };
            frames.extend([0, length[0], length[1], kind[0], kind[1], 0, 0, 0, stream]);
            frames.extend(&block[from..to]);
            (from, kind) = (to, [9, 0]);
        }
        frames
    }

    /// Feeds these blocks, each a whole request split at its offsets, to `h2`; returns the headers of those that it
    /// accepts.
    fn read_by_h2(blocks: &[(Vec<u8>, Vec<usize>)]) -> Result<Vec<HeaderMap>, h2::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(1 << 20);
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
            for (number, (block, cuts)) in (1..).step_by(2).zip(blocks) {
                bytes.extend(frames(number, block, cuts));
            }
            client.write_all(&bytes).await.expect("room");
            let (server, _marks) = Blocks::new(server, 11);
            let mut connection = h2::server::handshake(server).await?;
            let mut read = Vec::new();
            // All bytes are buffered already, so a pending `accept` means that none is left.
            while let Ok(Some(request)) =
                tokio::time::timeout(Duration::from_millis(1), connection.accept()).await
            {
                read.push(request?.0.headers().clone());
            }
            Ok(read)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_connection_goes_on_with_both_tables_the_same(
            malformed in fields(),
            more in fields(),
            cuts in proptest::collection::vec(0..100_usize, 0..5),
            before in 0..120_usize,
        ) {
            let filling: Vec<u8> = (0..before).flat_map(|number| format!("\x40\x01a\x03{number:03}").into_bytes()).collect();
            let first = [REQUEST, &filling].concat();
            let second = [REQUEST, &malformed.block(), &more.block()].concat();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % second.len()).collect();
            cuts.sort_unstable();
            let mut table = Fields::default();
            table.read(&first).expect("well formed");
            let is_followed = table.read(&second).is_some();
            // The oldest entry of a table that is full, or of one that is not.
            let (oldest, kept) = (table.len(), usize::from(malformed.is_kept) + usize::from(more.is_kept));
            prop_assume!(oldest > kept);
            let mut third = REQUEST.to_vec();
            put_number(&mut third, 0x80, 0x7f, oldest + 61);
            match read_by_h2(&[(first, Vec::new()), (second, cuts), (third, Vec::new())]) {
                Ok(read) => {
                    let last = read.last().expect("the third");
                    let expected = format!("{:03}", before + kept - oldest);
                    prop_assert_eq!(last.get("a").map(http::HeaderValue::as_bytes), Some(expected.as_bytes()));
                }
                Err(error) => {
                    // No name takes as little of the table.
                    let is_nothing = |field: &Field| {
                        field.is_kept && field.index == 0 && field.name.is_empty() && field.value.is_empty()
                    };
                    prop_assert!(!is_followed && (is_nothing(&malformed) || is_nothing(&more)), "{}", error);
                }
            }
        }
    }

    #[test]
    fn spare_fields_are_as_long_as_asked_for_and_right() {
        for bytes in (0..600).chain(16_000..17_000) {
            let mut spare = Vec::new();
            put_spare(&mut spare, bytes);
            assert_eq!(spare.len(), bytes);
            assert!(
                Fields::default().read(&spare).is_some_and(|seen| !seen.malformed && !seen.has_pseudo()),
                "{bytes}"
            );
        }
    }

    #[test]
    fn zeros_of_every_length_are_read_as_so_many() {
        for count in [0, 1, 2, 7, 8, 9, 15, 16, 202, 203, 204, 5_000] {
            let mut text = Vec::new();
            put_zeros(&mut text, count);
            let mut rest = &text[..];
            let read = Text::take(&mut rest).and_then(Text::decoded).expect("a text");
            assert_eq!((read.len(), rest.len()), (count, 0));
            assert!(read.iter().all(|byte| *byte == b'0'));
        }
    }
}
